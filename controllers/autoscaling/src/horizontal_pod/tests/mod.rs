mod calculator;
mod decisions;
mod failures;
mod groups;
mod limits;
mod requests;
mod rivals;
mod scenes;

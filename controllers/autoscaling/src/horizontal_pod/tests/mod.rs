mod calculator;
mod decisions;
mod groups;
mod limits;
mod requests;
mod rivals;
mod scenes;

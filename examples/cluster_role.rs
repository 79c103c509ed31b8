//! Prints the ClusterRole for a manager with the controllers of a list, which has the form of `--controllers`; without a
//! list, for all controllers of this program:
//!
//!     cargo run --example cluster_role -- job-controller,cronjob-controller

use steersman_controller::registry::Selection;
use steersman_controllers::{builtin, cluster_role, cluster_role_of};

#[expect(clippy::print_stdout, reason = "a command's result belongs there")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let role = match std::env::args().nth(1) {
        Some(list) => {
            let items: Vec<&str> = list.split(',').collect();
            cluster_role_of(&Selection::parse(&items, &builtin())?)
        }
        None => cluster_role(),
    };
    print!("{role}");
    Ok(())
}

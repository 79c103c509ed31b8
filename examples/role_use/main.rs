//! Proves that the ClusterRole of the manifests has the rights that the controllers need, and no others. Reads the audit logs of
//! API servers on which the integration tests ran, and compares each request with the rules that its controller declares:
//!
//!     STEERSMAN_TEST_AUDIT=/tmp/audit KUBEBUILDER_ASSETS=... cargo test --test '*'
//!     cargo run --example role_use -- /tmp/audit
//!
//! The code is 1 in each of these cases:
//!
//! - A request was forbidden. Refusals of declared rights do not count: the role of the tests has exactly these, so they come from an
//!   API server that has just started and has not read its roles yet. Neither do reads and updates of a status shortly
//!   afterwards: such a server may have answered in a review that the controller may not patch the status.
//! - A request was allowed, but by the rules of another controller: without that one, the request would have been forbidden. The
//!   wildcards of the garbage collector would hide such a request otherwise.
//! - A rule was never used, and [`exempt`] gives no reason for it; or [`exempt`] has an entry for which there is no rule.
#![expect(clippy::print_stdout, reason = "a command's result belongs there")]

mod audit;
mod exempt;
mod proof;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use exempt::{LISTS, UNUSED, WILDCARDS};
use proof::{Declared, Proof};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("the folder with the audit logs must be named")?;
    let registry = steersman_controllers::builtin();
    let mut proof = Proof::new(&registry);
    audit::read(Path::new(&folder), &registry, |origin, request| proof.add(origin, &request))?;
    println!("{} requests of managers, {} rights used", proof.requests(), proof.used().len());
    if proof.requests() == 0 {
        return Err("no manager under the role of the manifests made a request".into());
    }
    let faults = proof.faults();
    faults.iter().for_each(|fault| println!("{fault}"));
    println!(
        "{} requests do not count: API servers forbade them, or those before them, that had just started",
        proof.excused()
    );

    let unused = unused(&proof);
    let faults = faults.len() + unused;
    println!("{faults} faults");
    Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the declared rights that no request used, with the reasons for them, and returns the number of faults among them.
fn unused(proof: &Proof) -> usize {
    let mut faults = 0;
    let mut fault = |text: String| {
        faults += 1;
        println!("{text}");
    };
    let (mut needed, mut wide) = ([false; UNUSED.len()], [false; WILDCARDS.len()]);
    let mut lists = 0;
    // By controller and resource: the reason, and the verbs.
    let mut exempt = BTreeMap::<(&str, &str, &str), Vec<&str>>::new();
    for right in proof.declared() {
        let Declared { controller, group, resource, verb } = *right;
        if group.contains('*') || resource.contains('*') {
            match WILDCARDS.iter().position(|wildcard| wildcard.is_about(right)) {
                Some(at) => wide[at] = true,
                None => fault(format!("wildcard without a reason: {right}")),
            }
        }
        if proof.used().contains(right) {
            continue;
        }
        if verb == "list" && proof.used().contains(&Declared { verb: "watch", ..*right }) {
            lists += 1;
            continue;
        }
        match UNUSED.iter().position(|exempt| exempt.is_about(right)) {
            Some(at) => {
                needed[at] = true;
                exempt.entry((controller, resource, UNUSED[at].why)).or_default().push(verb);
            }
            None => fault(format!("never used: {verb} {resource} of \"{group}\" for {controller}")),
        }
    }
    for ((controller, resource, why), verbs) in exempt {
        println!("exempt: {} {resource} for {controller}: {why}", verbs.join(", "));
    }
    println!("exempt: list, {lists} times: {LISTS}");
    for wildcard in WILDCARDS {
        println!(
            "for kinds known at run time: {} for {}: {}",
            wildcard.resource, wildcard.controller, wildcard.why
        );
    }
    for (entry, needed) in UNUSED.iter().zip(needed) {
        if needed {
            continue;
        }
        if proof.declared().iter().any(|right| entry.is_about(right)) {
            println!("exempt without need, since requests used it: {entry}");
        } else {
            fault(format!("exempt, but no rule has it: {entry}"));
        }
    }
    for (entry, _) in WILDCARDS.iter().zip(wide).filter(|(_, wide)| !wide) {
        fault(format!("exempt, but no rule has the wildcard {} for {}", entry.resource, entry.controller));
    }
    faults
}

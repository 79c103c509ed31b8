//! What is refused, why, and what the user is told to do.

use super::*;

#[test]
fn a_refusal_is_one_line_that_says_which_and_why_and_what_to_do() {
    for (flags, line) in [
        ("--bogus", "unknown flag: --bogus; steersman controller-manager --help lists the flags"),
        (
            "--concurrent-job-sync=3",
            "unknown flag: --concurrent-job-sync, did you mean --concurrent-job-syncs?",
        ),
        ("--max-pods=110", "unknown flag: --max-pods; another command has it: steersman node --max-pods"),
        ("-x", "unknown shorthand flag: -x; steersman controller-manager --help lists the flags"),
        ("-kubeconfig=x", "unknown shorthand flag: -k, did you mean --kubeconfig?"),
        ("--kubeconfig", "flag needs an argument: --kubeconfig <file>"),
        (
            "--leader-elect=perhaps",
            "invalid argument \"perhaps\" for \"--leader-elect\" flag: must be true or false",
        ),
        (
            "--leader-elect false",
            "unexpected argument \"false\"; a value of this flag follows an equals sign: --leader-elect=false",
        ),
        ("run", "unexpected argument \"run\"; steersman controller-manager takes flags only"),
        ("kubeconfig=x", "unexpected argument \"kubeconfig=x\", did you mean --kubeconfig=x?"),
        (
            "--controller-start-interval=5",
            "invalid argument \"5\" for \"--controller-start-interval\" flag: time: missing unit in duration \"5\"; \
             write 30s, 5m or 1h30m",
        ),
        (
            "--concurrent-job-syncs many",
            "invalid argument \"many\" for \"--concurrent-job-syncs\" flag: must be a whole number",
        ),
        ("--v=some", "invalid argument \"some\" for \"--v\" flag: must be a whole number"),
        (
            "--kube-api-qps=fast",
            "invalid argument \"fast\" for \"--kube-api-qps\" flag: must be a number, such as 20 or 0.5",
        ),
        (
            "--concurrent-job-syncs=0",
            "invalid argument \"0\" for \"--concurrent-job-syncs\" flag: must be greater than 0",
        ),
        (
            "--http-address=8080",
            "invalid argument \"8080\" for \"--http-address\" flag: must be host:port, such as 127.0.0.1:10252",
        ),
        ("--profiling=yes", "invalid argument \"yes\" for \"--profiling\" flag: must be true or false"),
        (
            "--feature-gates=Foo",
            "invalid argument \"Foo\" for \"--feature-gates\" flag: missing bool value for Foo; write Foo=true or Foo=false",
        ),
        (
            "--leader-elect-resource-lock=endpoints",
            "invalid argument \"endpoints\" for \"--leader-elect-resource-lock\" flag: must be leases",
        ),
        (
            "--logging-format=xml",
            "invalid argument \"xml\" for \"--logging-format\" flag: must be text or json",
        ),
        ("--version=2", "invalid argument \"2\" for \"--version\" flag: must be true, false or raw"),
        (
            "--controllers=*,jobs",
            "invalid argument \"*,jobs\" for \"--controllers\" flag: \"jobs\" is not in the list of known controllers, \
             did you mean job? `steersman controller-manager --help` lists them",
        ),
        (
            "--controllers=xyz",
            "invalid argument \"xyz\" for \"--controllers\" flag: \"xyz\" is not in the list of known controllers; \
             `steersman controller-manager --help` lists them",
        ),
    ] {
        assert_eq!(refused(flags), line, "{flags}");
    }
    let durations = refused("--leader-elect-lease-duration=5s");
    assert!(durations.starts_with("--leader-elect-lease-duration, "), "{durations}");
}

#[test]
fn a_refused_command_line_names_the_command_that_was_probably_meant() {
    for (args, line) in [
        (
            "controller-managr",
            "unknown command \"controller-managr\" for \"steersman\", did you mean controller-manager?",
        ),
        ("kubelet", "unknown command \"kubelet\" for \"steersman\", did you mean node?"),
        (
            "scheduler",
            "unknown command \"scheduler\" for \"steersman\"; the commands are controller-manager, node, standalone, \
             version, completion and man",
        ),
        (
            "--hostname-override=x",
            "unknown flag: --hostname-override; it stands after the command: steersman node --hostname-override",
        ),
        ("--bogus", "unknown flag: --bogus; steersman --help lists the flags"),
        ("completion", "missing argument: <shell>; steersman completion --help shows the usage"),
        ("completion csh", "invalid shell \"csh\": must be bash, elvish, fish, powershell or zsh"),
        ("version -o xml", "invalid argument \"xml\" for \"--output\" flag: must be json or yaml"),
        ("version now", "unexpected argument \"now\"; steersman version takes flags only"),
        (
            "man kubelet",
            "no manual page for \"kubelet\"; there are: steersman, controller-manager, node, standalone, \
             standalone-snapshot, standalone-snapshot-save, standalone-snapshot-restore, version, completion, man",
        ),
        (
            "standalone run",
            "unknown command \"run\" for \"steersman standalone\"; the only command is snapshot",
        ),
        ("standalone data-dir=/x", "unexpected argument \"data-dir=/x\", did you mean --data-dir=/x?"),
        (
            "standalone snapshot sav",
            "unknown command \"sav\" for \"steersman standalone snapshot\", did you mean save?",
        ),
        (
            "standalone snapshot save",
            "missing argument: <file>; steersman standalone snapshot save --help shows the usage",
        ),
        (
            "standalone snapshot save f --bogus",
            "unknown flag: --bogus; steersman standalone snapshot save --help lists the flags",
        ),
    ] {
        assert_eq!(refusal(args), line, "{args}");
    }
    assert!(refusal("help scheduler").starts_with("unknown command \"scheduler\""));
}

#[test]
fn a_list_that_enables_no_controller_causes_a_warning() {
    for (flags, warning) in [
        (
            "--controllers=-job",
            "--controllers=-job enables no controller: --controllers=* enables all that are on by default, and *,-job \
             all but these",
        ),
        (
            "--controllers=",
            "--controllers= enables no controller: --controllers=* enables all that are on by default",
        ),
    ] {
        assert_eq!(manager(flags).warnings, [warning], "{flags}");
    }
    assert_eq!(manager("--controllers=*,-job").warnings, [""; 0]);
}

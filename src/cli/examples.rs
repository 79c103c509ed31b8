//! The examples in the help and in the manual pages.

use std::fmt::Write as _;

use clap::Command;

/// A command line, and what it does.
pub(super) struct Example {
    /// What it does: a sentence without its full stop.
    pub(super) about: &'static str,
    /// What the user types.
    pub(super) line: &'static str,
}

const fn example(about: &'static str, line: &'static str) -> Example {
    Example { about, line }
}

/// The examples of each command, `steersman` itself included. Lines have at most 76 characters, so that terminals of 80
/// columns do not break them.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "steersman",
        &[
            example("Run all of Kubernetes in one process, to try it", "steersman standalone"),
            example("Show the flags of a command", "steersman help controller-manager"),
            example("Complete commands and flags in this bash", "source <(steersman completion bash)"),
        ],
    ),
    (
        "controller-manager",
        &[
            example(
                "Run all controllers in place of kube-controller-manager",
                "steersman controller-manager \\\n      --kubeconfig=/etc/kubernetes/controller-manager.conf",
            ),
            example(
                "Run two controllers that kube-controller-manager does not run, beside it",
                "steersman controller-manager --kubeconfig=$HOME/.kube/config \\\n      \
                 --controllers=job,cronjob --leader-elect-resource-name=steersman",
            ),
            example(
                "Run all controllers but one, and log more",
                "steersman controller-manager --kubeconfig=$HOME/.kube/config \\\n      \
                 --controllers='*,-ttl' --v=4",
            ),
            example(
                "Serve metrics and health over plain HTTP, too, on this machine only",
                "steersman controller-manager --kubeconfig=$HOME/.kube/config \\\n      \
                 --http-address=127.0.0.1:10252",
            ),
        ],
    ),
    (
        "node",
        &[
            example(
                "Run this machine's pods in place of its kubelet",
                "steersman node --kubeconfig=/etc/kubernetes/kubelet.conf \\\n      \
                 --config=/var/lib/kubelet/config.yaml",
            ),
            example(
                "Run the pods of a folder of manifests, without an API server",
                "steersman node --pod-manifest-path=/etc/kubernetes/manifests",
            ),
        ],
    ),
    (
        "standalone",
        &[
            example("Run a cluster whose containers are simulated", "steersman standalone"),
            example(
                "Use it from another terminal",
                "KUBECONFIG=~/.local/share/steersman/kubeconfig kubectl get nodes",
            ),
            example(
                "Run real containers, as root",
                "steersman standalone \\\n      \
                 --container-runtime-endpoint=unix:///run/containerd/containerd.sock",
            ),
            example(
                "Run a second one beside it",
                "steersman standalone --data-dir=/tmp/second --https-address=127.0.0.1:0",
            ),
        ],
    ),
    (
        "snapshot",
        &[
            example("Save all objects while the cluster runs", "steersman standalone snapshot save backup"),
            example(
                "Make another data folder with them",
                "steersman standalone snapshot restore backup --data-dir=/tmp/third",
            ),
        ],
    ),
    (
        "save",
        &[
            example("Save all objects of the default cluster", "steersman standalone snapshot save backup"),
            example(
                "Save those of another one",
                "steersman standalone snapshot save backup --data-dir=/tmp/second",
            ),
        ],
    ),
    (
        "restore",
        &[
            example(
                "Make a data folder with all objects of a file",
                "steersman standalone snapshot restore backup --data-dir=/tmp/third",
            ),
            example("Start a cluster with them", "steersman standalone --data-dir=/tmp/third"),
        ],
    ),
    (
        "version",
        &[
            example("Print the versions of Steersman and of Kubernetes", "steersman version"),
            example("Print the version for a script", "steersman version -o json"),
        ],
    ),
    (
        "completion",
        &[
            example("Complete in this bash", "source <(steersman completion bash)"),
            example("Complete in every bash", "steersman completion bash > /etc/bash_completion.d/steersman"),
            example("Complete in every zsh", "steersman completion zsh > \"${fpath[1]}/_steersman\""),
            example(
                "Complete in every fish",
                "steersman completion fish > ~/.config/fish/completions/steersman.fish",
            ),
            example(
                "Complete in this PowerShell",
                "steersman completion powershell | Out-String | Invoke-Expression",
            ),
        ],
    ),
    (
        "man",
        &[
            example("Read the page of a command", "steersman man controller-manager | man -l -"),
            example("Install the pages of all commands", "steersman man --dir=/usr/local/share/man/man1"),
        ],
    ),
];

/// The examples of a command.
pub(super) fn of(command: &str) -> &'static [Example] {
    EXAMPLES.iter().find(|(name, _)| *name == command).map_or(&[], |(_, examples)| examples)
}

/// Adds the examples to the end of a command's help.
pub(super) fn added_to(command: Command) -> Command {
    let examples = of(command.get_name());
    if examples.is_empty() {
        return command;
    }
    let heading = *command.get_styles().get_header();
    let mut end = command.get_after_help().cloned().unwrap_or_default();
    if !end.to_string().is_empty() {
        let _ = write!(end, "\n\n");
    }
    let _ = write!(end, "{heading}Examples:{heading:#}");
    for (index, Example { about, line }) in examples.iter().enumerate() {
        let between = if index == 0 { "" } else { "\n" };
        let _ = write!(end, "{between}\n  # {about}\n  {line}");
    }
    command.after_help(end)
}

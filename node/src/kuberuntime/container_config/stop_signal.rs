//! The signal that asks a container to end.

use k8s_openapi::api::core::v1::Container;

use crate::cri::v1::Signal;

/// The signal in the spec; the image's or the runtime's own where there is none, or one that there is not.
pub(super) fn of(container: &Container) -> Signal {
    let name = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.as_deref());
    name.and_then(parse).unwrap_or(Signal::RuntimeDefault)
}

/// `SIGRTMIN+3` is `SIGRTMINPLUS3` to the runtime.
fn parse(name: &str) -> Option<Signal> {
    Signal::from_str_name(&name.replace('+', "PLUS").replace('-', "MINUS"))
}

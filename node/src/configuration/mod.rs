//! The agent's settings: `KubeletConfiguration`, from a file, drop-ins and flags.
//!
//! [`load`] puts them together in upstream's order: defaults, the file, the drop-ins, the flags. A field that
//! upstream has and this version does not heed is named in a warning, unless it says what happens anyway. A field that
//! there is not, and a value that can't be, end the start with a line that names the file, the field and the value. So does
//! an unknown field, which upstream only logs: who misspells `authentication` should know before others do.
//!
//! Upstream has other defaults for an agent without any file: requests that nobody signed may do everything. Here the
//! defaults are one and the same, with or without a file.

mod defaults;
mod document;
mod error;
mod eviction;
mod feature_gates;
mod kubelet_configuration;
mod load;
mod sections;
#[cfg(test)]
mod tests;
mod unsupported;
mod validate;

pub use error::{Error, Fault, Origin};
pub use eviction::{Amount, Signal, Threshold};
pub use kubelet_configuration::KubeletConfiguration;
pub use load::{Loaded, Setting, Sources, load};
pub use sections::{
    AnonymousAuthentication, Authentication, Authorization, AuthorizationMode, CgroupDriver,
    CrashLoopBackOff, Enforcement, LogFormat, LoggingConfiguration, TlsMinVersion, WebhookAuthentication,
    WebhookAuthorization, X509Authentication,
};
pub use steersman_api::GoDuration;
pub use steersman_api::duration::InvalidDuration;

impl KubeletConfiguration {
    /// All settings in use as upstream's `/configz` tells them, those not heeded with what happens in their place. Headers,
    /// which may be secret, are masked.
    pub fn to_configz(&self) -> serde_json::Value {
        let mut document = load::encode(self);
        unsupported::add_what_happens(&mut document);
        if let Some(serde_json::Value::Object(headers)) = document.get_mut("staticPodURLHeader") {
            headers.values_mut().for_each(|values| *values = serde_json::json!(["<masked>"]));
        }
        serde_json::Value::Object(document)
    }
}

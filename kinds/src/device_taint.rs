//! Taints of devices, and tolerations of them.

use steersman_api::Time;
use steersman_informer::{Interned, projection};

projection! {
    /// A taint of a device.
    #[derive(Eq)]
    pub struct DeviceTaint {
        /// The taint's key.
        pub key: Interned = 1 "key",
        /// The taint's value, with which tolerations compare theirs.
        pub value: Interned = 2 "value",
        /// `None`, `NoSchedule` or `NoExecute`.
        pub effect: Interned = 3 "effect",
        /// When the taint was added. The API server sets it if it is absent.
        pub time_added: Option<Time> = 4 "timeAdded",
    }

    /// A toleration of taints.
    #[derive(Eq)]
    pub struct DeviceToleration {
        /// The key of the tolerated taints. Empty: any key.
        pub key: Interned = 1 "key",
        /// `Exists` or `Equal`. Empty: `Equal`.
        pub operator: Interned = 2 "operator",
        /// The value of the tolerated taints, for `Equal`.
        pub value: Interned = 3 "value",
        /// The effect of the tolerated taints. Empty: any effect.
        pub effect: Interned = 4 "effect",
        /// For how many seconds the taint is tolerated. `None`: for ever.
        pub seconds: Option<i64> = 5 "tolerationSeconds",
    }
}

/// The effect of taints that end pods.
pub const NO_EXECUTE: &str = "NoExecute";

impl DeviceToleration {
    /// Whether the toleration tolerates `taint`, for whatever time. Upstream's `ToleratesTaint`.
    pub fn tolerates(&self, taint: &DeviceTaint) -> bool {
        let fits = |wanted: &Interned, has: &Interned| wanted.is_empty() || wanted == has;
        fits(&self.effect, &taint.effect)
            && fits(&self.key, &taint.key)
            && match self.operator.as_ref() {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}

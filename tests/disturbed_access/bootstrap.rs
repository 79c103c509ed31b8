//! Bootstrap tokens.

use std::ops::Range;

use crate::{Area, Made};
use support::Cluster;
use support::bootstrap::{Tokens, in_seconds};

const CLUSTER_INFO: &str = "a kubeconfig";

/// Numbered tokens that sign `cluster-info`, and as many that have expired.
pub(crate) struct BootstrapTokens {
    tokens: Tokens,
}

fn signing(number: usize) -> String {
    format!("s{number:05}")
}

fn expired(number: usize) -> String {
    format!("e{number:05}")
}

impl Area for BootstrapTokens {
    const CONTROLLERS: &'static str = "bootstrap-signer-controller,token-cleaner-controller";
    const ONE_BY_ONE: &'static [&'static str] = &["deletion"];
    const AT_ONCE: &'static [&'static str] = &["signature"];

    async fn of(cluster: &Cluster) -> Self {
        let tokens = Tokens::of(cluster.client());
        tokens.publish(CLUSTER_INFO).await;
        Self { tokens }
    }

    fn flags(&self) -> Vec<String> {
        Vec::new()
    }

    async fn create(&self, numbers: Range<usize>) {
        for number in numbers {
            self.tokens.create(&signing(number), None).await;
            self.tokens.create(&expired(number), in_seconds(-60)).await;
        }
    }

    async fn made(&self, count: usize) -> Made {
        let mut made = Made::new();
        let map = self.tokens.maps.get("cluster-info").await;
        let data = map.ok().and_then(|map| map.data).unwrap_or_default();
        for number in 0..count {
            if let Some(signature) = data.get(&format!("jws-kubeconfig-{}", signing(number))) {
                made.insert(("signature", number), signature.clone());
            }
            let secret = format!("bootstrap-token-{}", expired(number));
            if matches!(self.tokens.secrets.get_opt(&secret).await, Ok(None)) {
                made.insert(("deletion", number), String::new());
            }
        }
        made
    }

    async fn check(&self, _: &Made, count: usize) {
        let ids: Vec<_> = (0..count).map(signing).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        self.tokens.are_signatures_of(CLUSTER_INFO, &ids).await;
        for id in ids {
            assert!(self.tokens.exists(id).await, "{id}");
        }
    }
}

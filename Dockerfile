# `docker build -t steersman .` makes an image of the same files as image/pack.sh, which needs no container engine: one static
# program, the link under which it is kube-controller-manager, its licence and its bill of materials. Its user is nobody.
#
# `docker build --target root -t steersman:root .` makes one for the static pod that kubeadm writes: it names no user, and only
# root may read the files in /etc/kubernetes.
FROM rust:1.95.0-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends jq musl-tools
RUN rustup target add "$(uname -m)-unknown-linux-musl"
WORKDIR /steersman
COPY . .
ARG SOURCE_DATE_EPOCH
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=target \
    image/tree.sh "$(uname -m)-unknown-linux-musl" /image

FROM scratch AS root
LABEL org.opencontainers.image.title=steersman org.opencontainers.image.licenses=Apache-2.0
COPY --from=build /image/ /
ENV PATH=/usr/local/bin
ENTRYPOINT ["/steersman"]

FROM root
USER 65534:65534

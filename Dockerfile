# `docker build -t steersman .` makes an image of one static binary and nothing else. The Deployment in manifests/ runs it as
# nobody; kubeadm's static pod runs it as root, since only root may read the files in /etc/kubernetes.
FROM rust:1-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends musl-tools
RUN rustup target add "$(uname -m)-unknown-linux-musl"
WORKDIR /steersman
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=target \
    target="$(uname -m)-unknown-linux-musl" && export CARGO_PROFILE_DIST_STRIP=debuginfo && \
    cargo build --config .cargo/dist.toml --locked --profile dist --bin steersman --target "$target" && \
    cp "target/$target/dist/steersman" /usr/local/bin/ && \
    mkdir -p /image/usr/local/bin && ln -s /steersman /image/usr/local/bin/kube-controller-manager

FROM scratch
COPY --from=build /usr/local/bin/steersman /
# The static pod that kubeadm writes starts kube-controller-manager by its name: so it runs with only its image changed.
COPY --from=build /image/ /
ENV PATH=/usr/local/bin
ENTRYPOINT ["/steersman"]

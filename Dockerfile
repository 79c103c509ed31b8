# `docker build -t steersman .` makes an image of one static binary and nothing else. It runs as nobody.
FROM rust:1-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends musl-tools
RUN rustup target add "$(uname -m)-unknown-linux-musl"
WORKDIR /steersman
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=target \
    target="$(uname -m)-unknown-linux-musl" && export CARGO_PROFILE_DIST_STRIP=debuginfo && \
    cargo build --config .cargo/dist.toml --locked --profile dist --bin steersman --target "$target" && \
    cp "target/$target/dist/steersman" /usr/local/bin/

FROM scratch
COPY --from=build /usr/local/bin/steersman /
USER 65534:65534
ENTRYPOINT ["/steersman"]

# unsnarl with a C and C++ compiler. It works under Docker's and Podman's default profile:
#
#   docker build -t unsnarl .
#   docker run --rm -v "$PWD:/work" unsnarl sh -c 'unsnarl cc -g -pthread account.c -o account && unsnarl hunt -- ./account'
FROM rust:1.95-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN cargo install --locked --path /source/crates/cli --root /unsnarl

FROM debian:stable-slim
RUN apt-get update && apt-get install -y --no-install-recommends gcc g++ libc6-dev make && rm -rf /var/lib/apt/lists/*
COPY --from=build /unsnarl/bin/unsnarl /usr/local/bin/unsnarl
RUN unsnarl self-check
WORKDIR /work
CMD ["unsnarl", "--help"]

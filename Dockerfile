# Lastro with what its demo study requires: native, runc and Docker.
#
#     docker build --tag lastro .
#     docker run --rm --privileged --cgroupns=host --volume "$PWD/campaigns:/campaigns" lastro
#
# `--privileged` is needed: Lastro creates network namespaces, cgroups, mounts and a Docker daemon of its own. With it,
# a container is not a security boundary: run the image only where you would run Lastro as root.
# `--cgroupns=host` gives Lastro the host's tree of cgroups, which it needs with cgroup v2.
# The results hold for the host under this container, whose kernel all instances share.
FROM debian:12-slim

RUN apt-get update --quiet --quiet \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --quiet --no-install-recommends python3-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /usr/src/lastro
COPY pyproject.toml README.md LICENSE ./
COPY requirements requirements
COPY tools/install-locked tools/
COPY src src
COPY examples examples
RUN python3 -m venv /opt/lastro \
    && PIP_NO_CACHE_DIR=1 tools/install-locked /opt/lastro run \
    && ln -s /opt/lastro/bin/lastro /usr/local/bin/lastro
RUN lastro setup && rm -rf /var/lib/apt/lists/*

# The directory that is mounted on /campaigns may belong to a user of the host: whoever starts the container is trusted.
# Docker's storage needs a directory that is not itself a layer of an image; campaigns should outlive the container.
VOLUME ["/var/lib/lastro", "/campaigns"]
CMD ["sh", "-c", "exec lastro run demo --wait --trust --output /campaigns/demo-$(date +%Y%m%d-%H%M%S)"]

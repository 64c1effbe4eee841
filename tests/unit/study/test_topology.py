"""Topologies: their files, their addresses, and the routes that a routing protocol must find on them."""

from __future__ import annotations

import ipaddress
import itertools
import random

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastro.errors import InputError
from lastro.study.topology import NETWORK, RouterLink, RouterTopology, grid, grid_size, parse

RING = '[[link]]\nends = ["a", "b"]\n[[link]]\nends = ["b", "c"]\ncost = 3\n[[link]]\nends = ["c", "a"]\n'


@st.composite
def topologies(draw: st.DrawFn) -> RouterTopology:
    """Connected, with costs that are often alike, so that shortest paths are often several."""
    n = draw(st.integers(2, 9))
    cost = st.integers(1, 3)
    links = [RouterLink(draw(st.integers(0, at - 1)), at, draw(cost)) for at in range(1, n)]
    joined = {(link.a, link.b) for link in links}
    for a, b in itertools.combinations(range(n), 2):
        if (a, b) not in joined and draw(st.booleans()):
            links.append(RouterLink(a, b, draw(cost)))
    return RouterTopology(tuple(f"n{at}" for at in range(n)), tuple(links))


def as_networkx(topology: RouterTopology, without: tuple[int, ...] = ()) -> networkx.Graph:
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(topology.names)))
    for number, link in enumerate(topology.links):
        if number not in without:
            graph.add_edge(link.a, link.b, weight=link.cost, number=number)
    return graph


@given(st.integers(1, 12), st.integers(2, 12))
def test_a_grid_links_each_router_to_its_neighbours(rows: int, columns: int) -> None:
    found = grid(rows, columns)
    assert len(found.names) == rows * columns
    assert len(found.links) == rows * (columns - 1) + columns * (rows - 1)
    assert networkx.is_isomorphic(as_networkx(found), networkx.grid_2d_graph(rows, columns)) or rows * columns > 30


def test_grids_of_the_paper() -> None:
    assert (len(grid(3, 3).links), len(grid(4, 4).links)) == (12, 24)
    assert {grid(4, 4).names[corner] for corner in grid(4, 4).corners()} == {"r0-0", "r3-3"}
    assert grid_size("3x3") == (3, 3) and grid_size("10x4") == (10, 4) and grid_size("ring.toml") is None


@given(topologies())
def test_every_link_has_a_subnet_and_both_ends_have_addresses_in_it(topology: RouterTopology) -> None:
    subnets = [topology.subnet(number) for number in range(len(topology.links))]
    assert all(subnet.subnet_of(NETWORK) for subnet in subnets) and len(set(subnets)) == len(subnets)
    assert not any(a.overlaps(b) for a, b in itertools.pairwise(sorted(subnets)))
    for number, link in enumerate(topology.links):
        a, b = (topology.address(end, number) for end in (link.a, link.b))
        assert {a, b} == set(topology.subnet(number).hosts())
    names = [{topology.interface(at, number) for number in topology.at[at]} for at in range(len(topology.names))]
    assert [len(found) for found in names] == [len(links) for links in topology.at]


@settings(max_examples=60)
@given(topologies(), st.randoms())
def test_distances_are_those_of_networkx(topology: RouterTopology, draw: random.Random) -> None:
    without = tuple(number for number in topology.spare_links() if draw.random() < 0.5)
    graph = as_networkx(topology, without)
    for start in range(len(topology.names)):
        known = networkx.single_source_dijkstra_path_length(graph, start)
        assert topology.distances(start, without) == tuple(known[at] for at in range(len(topology.names)))


@settings(max_examples=60)
@given(topologies(), st.randoms())
def test_next_hops_are_those_of_all_shortest_paths(topology: RouterTopology, draw: random.Random) -> None:
    without = tuple(number for number in topology.spare_links() if draw.random() < 0.5)
    graph = as_networkx(topology, without)
    for router, routes in enumerate(topology.routes(without)):
        assert set(routes) == {
            topology.subnet(number) for number in range(len(topology.links)) if number not in topology.at[router]
        }
        for number, link in enumerate(topology.links):
            if number in topology.at[router]:
                continue
            ends = {end: networkx.dijkstra_path_length(graph, router, end) for end in (link.a, link.b)}
            paths = [
                path
                for end, cost in ends.items()
                if cost == min(ends.values())
                for path in networkx.all_shortest_paths(graph, router, end, weight="weight")
            ]
            hops = {str(topology.address(path[1], graph[router][path[1]]["number"])) for path in paths}
            assert routes[topology.subnet(number)] == hops


def test_a_link_without_carrier_takes_its_subnet_along() -> None:
    square = grid(2, 2)
    (spare,) = square.spare_links()
    silent, carrier = square.routes([spare]), square.routes([spare], subnets_gone=True)
    assert any(square.subnet(spare) in routes for routes in silent)
    assert not any(square.subnet(spare) in routes for routes in carrier)


@given(topologies())
def test_what_is_not_spare_is_a_minimum_spanning_tree(topology: RouterTopology) -> None:
    spare = topology.spare_links()
    tree = as_networkx(topology, spare)
    assert networkx.is_tree(tree)
    least = networkx.minimum_spanning_tree(as_networkx(topology))
    assert tree.size("weight") == least.size("weight")


@given(topologies())
def test_the_probe_takes_a_way_that_the_failure_cuts(topology: RouterTopology) -> None:
    spare = topology.spare_links()
    found = topology.detour(spare)
    if found is None:
        return
    router, number = found
    assert number not in spare
    graph, link = as_networkx(topology), topology.links[number]
    near = min((link.a, link.b), key=topology.distances(router).__getitem__)
    for path in networkx.all_shortest_paths(graph, router, near, weight="weight"):
        assert any(graph[x][y]["number"] in spare for x, y in itertools.pairwise(path))


def test_a_failure_of_a_grid_has_a_probe_and_that_of_a_tree_has_none() -> None:
    assert grid(2, 2).detour(grid(2, 2).spare_links())
    assert grid(3, 3).detour(grid(3, 3).spare_links())
    assert grid(1, 5).detour(()) is None


def test_files_of_three_formats_make_the_same_ring() -> None:
    graphml = (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'
        '<node id="a"/><node id="b"><data key="d">x</data></node><node id="c"/>'
        '<edge source="a" target="b"/><edge source="b" target="c"/><edge source="b" target="a"/>'
        '<edge source="c" target="a"/></graph></graphml>'
    )
    toml, xml = parse(RING, "ring.toml"), parse(graphml, "ring.graphml")
    edges = parse("# a ring\na b\nb,c 3\nc a  % back\na c\n", "ring.txt")
    assert toml.names == xml.names == edges.names == ("a", "b", "c")
    assert toml.links == edges.links == (RouterLink(0, 1), RouterLink(1, 2, 3), RouterLink(2, 0))
    assert [link.cost for link in xml.links] == [10, 10, 10]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("a b\nc d\n", "x.txt", r"x\.txt: is not connected: no path leads from 'a' to 'c', 'd'"),
        ("a\n", "x.txt", r"x\.txt: line 1: 1 words"),
        ("a b zero\n", "x.txt", r"x\.txt: line 1: cost 'zero' is not a whole number from 1 to 65535"),
        ("", "x.txt", r"x\.txt: has 0 routers"),
        ("nodes = [", "x.toml", r"x\.toml: is not TOML"),
        ("node = []", "x.toml", r"x\.toml: unknown key 'node'"),
        ("nodes = [1]", "x.toml", r"x\.toml: nodes: must be a list of names"),
        ('nodes = ["a", "a"]', "x.toml", r"x\.toml: nodes: 'a' is listed twice"),
        ('nodes = ["a"]\n[[link]]\nends = ["a", "b"]', "x.toml", r"link\[0\]\.ends: 'b' is not in nodes"),
        ('[[link]]\nends = ["a", "a"]\n[[link]]\nends = ["a", "b"]', "x.toml", r"a link joins 'a' to itself"),
        ('[[link]]\nends = ["a", "b"]\ncost = 0', "x.toml", r"cost 0 is not"),
        ('[[link]]\nends = ["a"]', "x.toml", r"link\[0\]\.ends: must be the names of two routers"),
        ('<graphml><node id="a&#10;END"/></graphml>', "x.graphml", r"x\.graphml: 'a\\nEND' is not a router name"),
        ('nodes = ["", "b"]', "x.toml", r"x\.toml: '' is not a router name"),
        ("<graphml>", "x.graphml", r"x\.graphml: is not XML"),
        ('<!DOCTYPE a><graphml/>', "x.graphml", r"contains a document type declaration"),
        ('<graphml><node id="a"/><edge source="a" target="z"/></graphml>', "x.graphml", r"'z', which is not a node"),
    ],
)  # fmt: skip
def test_what_is_no_topology_is_refused_with_the_place_and_the_remedy(text: str, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse(text, name)
    assert caught.value.hint


def test_more_links_than_subnets_are_refused() -> None:
    pairs = itertools.islice(itertools.combinations(range(300), 2), 32_769)
    with pytest.raises(InputError, match=r"has 32769 links, but 198\.18\.0\.0/15 has room for only 32768 subnets"):
        parse("\n".join(f"{a} {b}" for a, b in pairs), "many.txt")
    with pytest.raises(InputError, match="9801 routers; the limit is 1024"):
        grid(99, 99)
    last = RouterTopology(("a", "b"), (RouterLink(0, 1),)).subnet(32_767)
    assert last == ipaddress.ip_network("198.19.255.252/30")

import Testing

@testable import MegatonRedis

@Suite struct ClusterTopologyTests {
    private let asked = RedisEndpoint.tcp(host: "h", port: 1)

    private func node(_ host: String, _ port: Int) -> RedisValue {
        .array([.status(host), .integer(port), .status("id"), .array([])])
    }

    private func range(_ slots: ClosedRange<Int>, _ nodes: RedisValue...) -> RedisValue {
        .array([.integer(slots.lowerBound), .integer(slots.upperBound)] + nodes)
    }

    @Test func hasTheMasterOfEachSlot() throws {
        let reply = RedisValue.array([
            range(0...99, node("a", 1), node("b", 2)), range(100...100, node("c", 3)),
            range(200...16_383, node("a", 1), node("d", 4)),
        ])
        let topology = try ClusterTopology(slots: reply, from: asked)
        #expect(topology.masters == [.tcp(host: "a", port: 1), .tcp(host: "c", port: 3)])
        #expect(topology.nodes.map(\.description) == ["a:1", "c:3", "b:2", "d:4"])
        #expect(topology.master(of: 0) == .tcp(host: "a", port: 1))
        #expect(topology.master(of: 100) == .tcp(host: "c", port: 3))
        #expect(topology.master(of: 150) == nil && topology.missingSlots == 99)
        #expect(topology.master(of: 16_383) == .tcp(host: "a", port: 1))
    }

    @Test func aNodeWithoutAnAddressIsAtTheHostThatWasAsked() throws {
        let reply = RedisValue.array([range(0...0, .array([.null, .integer(7)])), range(1...1, node("?", 8))])
        let topology = try ClusterTopology(slots: reply, from: asked)
        #expect(topology.masters == [.tcp(host: "h", port: 7), .tcp(host: "h", port: 8)])
    }

    @Test func aMovedSlotGoesToItsNewMasterOnly() throws {
        let reply = RedisValue.array([range(0...9, node("a", 1), node("b", 2)), range(10...19, node("c", 3))])
        var topology = try ClusterTopology(slots: reply, from: asked)
        topology.move(5, to: .tcp(host: "c", port: 3))
        #expect(topology.master(of: 5) == .tcp(host: "c", port: 3))
        #expect(topology.master(of: 4) == .tcp(host: "a", port: 1))
        // To a replica that was promoted, and to a node that was unknown.
        topology.move(4, to: .tcp(host: "b", port: 2))
        topology.move(6, to: .tcp(host: "e", port: 9))
        #expect(
            topology.master(of: 4) == .tcp(host: "b", port: 2) && topology.master(of: 6) == .tcp(host: "e", port: 9)
        )
        #expect(
            topology.master(of: 3) == .tcp(host: "a", port: 1) && topology.master(of: 15) == .tcp(host: "c", port: 3)
        )
        #expect(topology.masters.count == 4 && topology.nodes.count == 4)
        topology.move(99_999, to: .tcp(host: "e", port: 9))
    }

    @Test(arguments: [
        RedisValue.null, .array([.integer(1)]), .array([.array([.integer(0), .integer(16_384), .array([])])]),
        .array([.array([.integer(5), .integer(4), .array([.status("a"), .integer(1)])])]),
        .array([.array([.integer(0), .integer(1), .array([.status("a")])])]),
        .array([.array([.integer(0), .integer(1)])]),
        .array([.array([.integer(-1), .integer(1), .array([.status("a"), .integer(1)])])]),
    ])
    func refusesAnythingElse(_ reply: RedisValue) {
        #expect { try ClusterTopology(slots: reply, from: asked) } throws: {
            ($0 as? RedisError)?.code == .unexpectedReply
        }
    }

    @Test func readsRedirects() {
        #expect(
            ClusterRedirect("MOVED 3999 b:6381", from: asked) == .moved(slot: 3999, to: .tcp(host: "b", port: 6381))
        )
        #expect(ClusterRedirect("ASK 3999 :6381", from: asked) == .ask(.tcp(host: "h", port: 6381)))
        #expect(
            ClusterRedirect("MOVED 1 fe80::1:6381", from: asked)
                == .moved(slot: 1, to: .tcp(host: "fe80::1", port: 6381))
        )
        #expect(ClusterRedirect("TRYAGAIN Multiple keys", from: asked) == .tryAgain)
        #expect(ClusterRedirect("CLUSTERDOWN The cluster is down", from: asked) == .down)
        for other in ["", "ERR x", "MOVED", "MOVED x b:1", "MOVED 1 b", "MOVED 1 b:x", "NOSCRIPT x"] {
            #expect(ClusterRedirect(other, from: asked) == nil, "\(other)")
        }
    }
}

import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

/// Connections between workers and Redis that hang, or are half-open.
@Suite(.serialized, .timeLimit(.minutes(2))) struct NetworkFaultTests {
    // One worker in a black hole.
    @Test func aWorkerInABlackHoleLosesItsJobsAndItsSay() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try await FaultProxy.run(to: .unix(path: cluster.server.socket)) { (proxy) async throws in
                try cluster.coordinator()
                let far = try cluster.worker(FaultCluster.hasty, redis: proxy.url)
                try cluster.worker(FaultCluster.hasty)
                try await cluster.waitUntilReady(workers: 2)
                origin.hold()
                let first = try cluster.submit((0..<16).map { origin.url("/\($0).png") })
                // Each of the two workers has eight slots.
                try await cluster.wait(untilRunning: 16)
                proxy.blackHole(true)
                origin.release()
                let during = try await cluster.summary(of: first)
                #expect(during.jobs == 16 && during.done == 16 && during.failed == 0)
                #expect(try await cluster.statistic("stalled") >= 8)

                origin.hold()
                // Commands that the worker sent meanwhile arrive now, and have no effect.
                proxy.blackHole(false)
                let second = try cluster.submit((0..<16).map { origin.url("/again-\($0).png") })
                let name = ":\(far.pid):"
                try await cluster.wait(for: ["meta"]) { client in
                    try await FaultCluster.metas(client).contains { $0.contains(name) }
                }
                origin.release()
                let after = try await cluster.summary(of: second)
                #expect(after.jobs == 16 && after.done == 16 && after.failed == 0)
                far.send(SIGTERM)
                #expect(await far.ending().code == 0, "\(far.errors)")
                #expect(try await cluster.statistic("done") == 32)
                // Its completions were refused, or its heartbeat noticed the loss first.
                let (refused, lost) = (try await cluster.lateEnds(), try await cluster.statistic("leases_lost"))
                #expect(refused + lost > 0)
                #expect(try await cluster.leftovers() == [])
            }
        }
    }

    // A half-open connection receives the wake token.
    @Test func aGhostThatTakesTheWakeTokenLosesNoJob() async throws {
        try await FaultCluster.run { (cluster) async throws in
            let image = try cluster.directory.write(FaultCluster.image, to: "a.png")
            try await FaultProxy.run(to: .unix(path: cluster.server.socket)) { (proxy) async throws in
                try cluster.coordinator()
                let worker = try cluster.worker(redis: proxy.url)
                try await cluster.waitUntilReady(workers: 1)
                let ghosts = try await cluster.poll { clients -> Set<String>? in
                    let found = Self.sleepers(clients)
                    return found.isEmpty ? nil : found
                }
                proxy.halfOpen()
                // The worker is idle again, and the ghost's connection is ahead of it in the queue.
                _ = try await cluster.poll { clients -> Bool? in
                    let found = Self.sleepers(clients)
                    return found.isSuperset(of: ghosts) && found.count > ghosts.count ? true : nil
                }
                try await cluster.push(URL(fileURLWithPath: image), id: "a")
                try await cluster.wait(untilDone: 1)
                #expect(worker.isRunning)
                #expect(try await cluster.leftovers() == [])
            }
        }
    }

    /// `id=…` of the connections on which idle workers block, from CLIENT LIST.
    private static func sleepers(_ clients: String) -> Set<String> {
        Set(
            clients.split(separator: "\n")
                .filter { $0.contains(" name=megaton:wake ") && $0.contains(" cmd=blpop ") }
                .compactMap { $0.split(separator: " ").first.map(String.init) }
        )
    }

    // Subscriptions are cut while jobs wait.
    @Test func waitersAreServedAlthoughTheirSubscriptionsWereCut() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            let options = ["--concurrency", "32"]
            try await cluster.start(workers: [options, options])
            origin.hold()
            let submit = try cluster.submit((0..<60).map { _ in origin.url("/one.png") })
            await origin.waitForRequests("/one.png", count: 1)
            try await cluster.wait(untilRunning: 60)
            // One process leads; the other waits for it.
            _ = try await cluster.poll { _ -> Bool? in
                let reply = try await cluster.client.send(["PUBSUB", "CHANNELS", "megaton:landed:*"])
                return reply.array?.isEmpty == false ? true : nil
            }
            try await cluster.client.send(["CLIENT", "KILL", "TYPE", "pubsub"])
            // The notification of the landing may arrive while no worker is subscribed.
            origin.release()
            let summary = try await cluster.summary(of: submit)
            #expect(summary.jobs == 60 && summary.done == 60 && summary.failed == 0)
            #expect(origin.count("/one.png") == 1)
        }
    }
}

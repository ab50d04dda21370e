import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// Which hosts get the places of the deliverer, by claims of its script: with a real Redis, and without requests.
@Suite(.timeLimit(.minutes(2))) struct WebhookTurnTests {
    /// Fault: a host that does not answer held four places before that was known.
    @Test func aHostGetsOneRequestBeforeItsFirstAnswer() async throws {
        try await WebhookReceiver.run([200]) { (fixture, _, server) async throws in
            try await fixture.endJobs(for: Array(repeating: server.url("/"), count: 8))
            let host = "127.0.0.1:\(server.port)"
            func claim(inFlight: Int = 0) async throws -> [ClaimedWebhook] {
                try await fixture.claimWebhooks(9, unproven: 9, inFlight > 0 ? [host: inFlight] : [:])
            }
            let first = try await claim()
            #expect(first.count == 1)
            #expect(try await claim(inFlight: 1).isEmpty, "it has not answered yet")
            _ = try await fixture.queue.settle(first[0], .delivered, hasAnswered: true, .init())
            let next = try await claim()
            #expect(next.count == 4)
            _ = try await fixture.queue.settle(next[0], .retry(after: .seconds(60)), hasAnswered: false, .init())
            #expect(try await claim(inFlight: 3).isEmpty, "it has failed")
            _ = try await fixture.queue.settle(next[1], .delivered, hasAnswered: true, .init())
            let last = try await claim(inFlight: 2)
            #expect(last.count == 2)
            // Fault: ten hosts that took nine seconds for each answer left no place for the others. But a slow host has
            // as many requests as a quick one if no other needs the places.
            _ = try await fixture.queue.settle(last[0], .delivered, hasAnswered: true, isSlow: true, .init())
            try await fixture.endJobs(for: Array(repeating: server.url("/"), count: 16))
            #expect(try await fixture.claimWebhooks(9, unproven: 3).count == 3, "it answers slowly")
            #expect(try await claim().count == 4)
        }
    }

    /// Fault: some hundred hosts that accept connections and do not answer had all places for minutes.
    @Test func hostsThatHaveNotAnsweredLeavePlacesForOthers() async throws {
        try await WebhookReceiver.run([200]) { (fixture, _, server) async throws in
            try await fixture.endJobs(for: [server.url("/"), server.url("/")])
            let first = try await fixture.claimWebhooks(8, unproven: 3)
            _ = try await fixture.queue.settle(first[0], .delivered, hasAnswered: true, .init())
            let silent = (1...20).compactMap { URL(string: "http://127.0.0.1:\($0)/") }
            try await fixture.endJobs(for: silent)
            let next = try await fixture.claimWebhooks(8, unproven: 3)
            #expect(next.count { $0.host == first[0].host } == 1 && next.count == 4)
            let inFlight = Dictionary(next.map { ($0.host, 1) }) { $0 + $1 }
            #expect(
                try await fixture.claimWebhooks(8, unproven: 3, inFlight).isEmpty,
                "they have the places for such hosts"
            )
        }
    }

    /// Fault: a host that had no more webhooks was forgotten, and its next one waited behind those of silent hosts.
    @Test func aHostThatHasAnsweredKeepsItsPlaces() async throws {
        try await WebhookReceiver.run([200]) { (fixture, _, server) async throws in
            try await fixture.endJobs(for: [server.url("/")])
            let first = try await fixture.claimWebhooks(8, unproven: 3)
            _ = try await fixture.queue.settle(first[0], .delivered, hasAnswered: true, .init())
            try await fixture.endJobs(for: (1...20).compactMap { URL(string: "http://127.0.0.1:\($0)/") })
            let silent = try await fixture.claimWebhooks(8, unproven: 3)
            #expect(silent.count == 3)
            let inFlight = Dictionary(silent.map { ($0.host, 1) }) { $0 + $1 }
            try await fixture.endJobs(for: Array(repeating: server.url("/"), count: 2), first: 30)
            let next = try await fixture.claimWebhooks(8, unproven: 3, inFlight)
            #expect(next.map(\.host) == [first[0].host], "one until it has answered again")
            _ = try await fixture.queue.settle(next[0], .retry(after: .zero), hasAnswered: false, .init())
            #expect(try await fixture.claimWebhooks(8, unproven: 3, inFlight).isEmpty, "it has failed")
        }
    }

    /// Fault: hosts that waited for a place were put off for the same time each, so that the order of their names
    /// decided, and a script ran without a pause for as long as many of them waited.
    @Test func hostsWithoutAnAnswerTakeTurns() async throws {
        try await WebhookReceiver.run([200]) { (fixture, _, _) async throws in
            let hosts = (0..<200).reversed().map { "10.0.0.\($0):80" }
            for host in hosts.prefix(3) {
                try await fixture.endJobs(for: [try #require(URL(string: "http://\(host)/"))])
            }
            try await fixture.endJobs(for: hosts.dropFirst(3).compactMap { URL(string: "http://\($0)/") }, first: 3)
            let limits = JobQueue.WebhookLimits(
                count: 8,
                unproven: 1,
                perHost: 4,
                lease: .seconds(60),
                age: .seconds(60)
            )
            var claimed: [String] = []
            for _ in 0..<3 {
                let busy = try await fixture.queue.claimWebhooks(
                    limits,
                    inFlight: ["other:443": 1],
                    name: "leader",
                    epoch: fixture.epoch
                )
                #expect(busy?.webhooks.isEmpty == true && busy?.wait != .zero, "the end of a request wakes the leader")
                let next = try await fixture.claimWebhooks(8, unproven: 1)
                claimed += next.map(\.host)
                for webhook in next {
                    _ = try await fixture.queue.settle(webhook, .delivered, hasAnswered: true, .init())
                }
            }
            #expect(claimed == Array(hosts.prefix(3)), "first come, first served")
        }
    }
}

import Logging
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonRedis

/// A process listens to a channel while something in it waits for messages of the channel, and no longer.
@Suite(.timeLimit(.minutes(2))) struct ChannelSubscriptionsTests {
    private func withSubscriptions(
        _ body: (RedisClient, ChannelSubscriptions, inout AsyncStream<String>.Iterator) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run { server in
            let client = server.client()
            defer { client.close() }
            let (events, continuation) = AsyncStream.makeStream(of: String.self)
            let subscriptions = ChannelSubscriptions(
                server.configuration,
                group: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                onSubscribed: { continuation.yield("+\($0)") },
                onMessage: { continuation.yield("\($0): \($1)") }
            )
            let listening = Task { await subscriptions.run() }  // Cancelled below.
            var iterator = events.makeAsyncIterator()
            try await body(client, subscriptions, &iterator)
            listening.cancel()
            await listening.value
        }
    }

    private func channels(_ client: RedisClient) async throws -> [String] {
        (try await client.send(["PUBSUB", "CHANNELS"]).array ?? []).compactMap(\.string).sorted()
    }

    /// Waits until the server has these channels.
    private func wait(_ client: RedisClient, for expected: [String]) async throws {
        while try await channels(client) != expected { await Task.yield() }
    }

    @Test func channelsComeAndGoWithTheirListeners() async throws {
        try await withSubscriptions { client, subscriptions, events in
            #expect(try await channels(client).isEmpty)
            #expect(!subscriptions.subscribe(to: "a"))
            #expect(await events.next() == "+a")
            #expect(subscriptions.subscribe(to: "a"), "it is active already")
            #expect(!subscriptions.subscribe(to: "b"))
            #expect(await events.next() == "+b")
            try await client.send(["PUBLISH", "a", "one"])
            #expect(await events.next() == "a: one")
            subscriptions.unsubscribe(from: "a")
            subscriptions.unsubscribe(from: "b")
            try await wait(client, for: ["a"])
            subscriptions.unsubscribe(from: "a")
            try await wait(client, for: [])
            // The connection is used again.
            #expect(!subscriptions.subscribe(to: "c"))
            #expect(await events.next() == "+c")
            subscriptions.unsubscribe(from: "never subscribed")
            try await client.send(["PUBLISH", "c", "two"])
            #expect(await events.next() == "c: two")
        }
    }

    @Test func listensAgainAfterItsConnectionWasCut() async throws {
        try await withSubscriptions { client, subscriptions, events in
            _ = subscriptions.subscribe(to: "a")
            #expect(await events.next() == "+a")
            try await client.send(["CLIENT", "KILL", "TYPE", "pubsub"])
            #expect(await events.next() == "+a", "what was published meanwhile is lost, so it is reported again")
            try await client.send(["PUBLISH", "a", "one"])
            #expect(await events.next() == "a: one")
        }
    }

    /// An operator mends the ACL while the process runs.
    @Test func listensAgainOnceItsUserMaySubscribe() async throws {
        try await withSubscriptions { client, subscriptions, events in
            try await client.send(["ACL", "SETUSER", "default", "resetchannels"])
            _ = subscriptions.subscribe(to: "a")
            while try await client.send(["ACL", "LOG"]).array?.isEmpty != false { await Task.yield() }
            try await client.send(["ACL", "SETUSER", "default", "allchannels"])
            #expect(await events.next() == "+a")
            try await client.send(["PUBLISH", "a", "one"])
            #expect(await events.next() == "a: one")
        }
    }

    /// A channel that is left and wanted again at once is active in the end.
    @Test func manyQuickChangesEndInTheLastState() async throws {
        try await withSubscriptions { client, subscriptions, events in
            _ = subscriptions.subscribe(to: "other")
            #expect(await events.next() == "+other")
            for _ in 0..<200 {
                _ = subscriptions.subscribe(to: "a")
                await Task.yield()
                subscriptions.unsubscribe(from: "a")
            }
            try await wait(client, for: ["other"])
            _ = subscriptions.subscribe(to: "a")
            try await wait(client, for: ["a", "other"])
            try await client.send(["PUBLISH", "a", "end"])
            while let event = await events.next(), event != "a: end" { #expect(event == "+a") }
        }
    }
}

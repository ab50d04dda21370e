import Foundation
import MegatonCluster
import MegatonRedis
import MegatonTestSupport
import Testing

/// Outcomes that a coordinator sends to a webhook, in real processes.
@Suite(.timeLimit(.minutes(3))) struct WebhookTests {
    private static let key = "0123456789abcdef0123456789abcdef"
    private static let permissions = ["--webhook-allow-http", "--webhook-allow-private"]

    private func options(_ cluster: FaultCluster) throws -> [String] {
        let file = try cluster.directory.write(Data("\(Self.key)\n".utf8), to: "hook.key")
        return ["--webhook-key", file] + Self.permissions
    }

    private func push(_ cluster: FaultCluster, id: String, _ source: URL, to webhook: URL) async throws {
        let reply = #""reply":{"webhook":"\#(webhook.absoluteString)"}"#
        let job = #"{"id":"\#(id)","source":"\#(source.absoluteString)",\#(reply)}"#
        try await cluster.client.send(["LPUSH", "megaton:{default}:jobs", .string(job)])
    }

    /// Waits until a file of a process has a text. Each poll reads a file; the suite's time limit bounds them.
    private func wait(_ process: ProgramUnderTest, until isReached: () -> Bool) async throws {
        while !isReached() {
            try Task.checkCancellation()
            try #require(process.isRunning, "ended: \(process.errors)")
            await Task.yield()
        }
    }

    /// The receiver is the example for users: it answers 401 if it cannot verify a signature, and prints the others.
    @Test func theExampleVerifiesTheOutcomes() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            let port = try FreePort.find()
            let file = try cluster.directory.write(Data("\(Self.key)\n".utf8), to: "receiver.key")
            let receiver = try ProgramUnderTest(
                program: "/usr/bin/python3",
                arguments: ["\(Repository.root)/Examples/python/webhook.py", file, "\(port)"]
            )
            defer { receiver.send(SIGKILL) }
            try await wait(receiver) { FreePort.isListening(port) }
            let coordinator = try cluster.coordinator(try options(cluster))
            try cluster.worker(FaultCluster.hasty)
            try await cluster.waitUntilReady(workers: 1)
            let hook = try #require(URL(string: "http://127.0.0.1:\(port)/hook"))
            try await push(cluster, id: "a", origin.url("/a.png"), to: hook)
            try await push(cluster, id: "b", try #require(URL(string: "data:,none")), to: hook)
            try await wait(receiver) { receiver.output.count(where: \.isNewline) == 2 }
            #expect(Set(receiver.output.split(separator: "\n")) == ["a done", "b failed"])
            try await cluster.wait(for: ["webhooks"]) { client in
                try await client.send(["EXISTS", "megaton:{default}:2:webhooks"]).int == 0
            }
            #expect(try await cluster.statistic("webhooks_delivered") == 2)
            coordinator.send(SIGTERM)
            let ending = await coordinator.ending()
            #expect(ending.code == 0, "\(ending.errors)")
            #expect(!ending.errors.contains(Self.key))
        }
    }

    /// The receiver has the request, and the coordinator dies before it has the answer.
    @Test(.enabled(if: LongTests.areOn, "takes long; ./scripts/test --all runs it")) func aKilledCoordinatorIsReplaced()
        async throws
    {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try await OriginServer.run(answer: { _ in .init(status: 200) }) { (receiver) async throws in
                receiver.hold()
                let coordinator = try cluster.coordinator(try options(cluster))
                try cluster.worker(FaultCluster.hasty)
                try await cluster.waitUntilReady(workers: 1)
                try await push(cluster, id: "a", origin.url("/a.png"), to: receiver.url("/hook"))
                await receiver.waitForRequests("/hook", count: 1)
                coordinator.send(SIGKILL)
                _ = await coordinator.ending()
                receiver.release()
                try cluster.coordinator(try options(cluster))
                await receiver.waitForRequests("/hook", count: 2)
                try await cluster.wait(for: ["webhooks"]) { client in
                    try await client.send(["EXISTS", "megaton:{default}:2:webhooks"]).int == 0
                }
                #expect(try await cluster.statistic("webhooks_delivered") == 1)
            }
        }
    }

    @Test func withoutAKeyTheJobFails() async throws {
        try await FaultCluster.runWithOrigin { (cluster, origin) async throws in
            try cluster.coordinator()
            try await push(cluster, id: "a", origin.url("/a.png"), to: origin.url("/hook"))
            try await cluster.wait(for: ["dead"]) { client in
                try await client.send(["ZCARD", "megaton:{default}:2:dead"]).int == 1
            }
            let letter = try await JobQueue(cluster.client, keys: QueueKeys()).deadLetter(id: "a")
            #expect(letter?.content.code == "invalid_job")
            #expect(letter?.content.message.contains("--webhook-key") == true, "\(String(describing: letter))")
            #expect(origin.total == 0)
        }
    }

    @Test func wrongOptionsAreNamed() async throws {
        let directory = try TestDirectory()
        let short = try directory.write(Data("secret".utf8), to: "short.key")
        let good = try directory.write(Data(Self.key.utf8), to: "good.key")
        let wrong: [(arguments: [String], words: String)] = [
            (["--webhook-host", "example.com"], "without --webhook-key"),
            (["--webhook-key", good, "--webhook-host", "example.com?a=b"], "--webhook-host"),
            (["--webhook-key", good, "--webhook-host", "s3://bucket"], "--webhook-host"),
            (["--webhook-key", good, "--webhook-port", "0"], "--webhook-port"),
            (["--webhook-key", good, "--webhook-host", "h", "--webhook-port", "8443"], "example.com:8443"),
            (["--webhook-key", short], "6 bytes"), (["--webhook-key", directory.path + "/none"], "cannot be read"),
        ]
        let coordinator = ["coordinator", "--redis", "redis://127.0.0.1:1"]
        for (arguments, words) in wrong {
            let ending = await (try ProgramUnderTest.megaton(coordinator + arguments)).ending()
            #expect(ending.code == 64 && ending.errors.contains(words), "\(arguments): \(ending.errors)")
            #expect(!ending.errors.contains("secret"))
        }
    }
}

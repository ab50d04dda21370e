import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCluster

/// Requests that a local server has received as a webhook, and the lines that the deliverer has logged.
final class WebhookReceiver: Sendable {
    private let received = Mutex<[OriginServer.Request]>([])
    private let lines = LogLines()

    static let key = Data("0123456789abcdef".utf8)

    var requests: [OriginServer.Request] { received.withLock { $0 } }
    /// One for each outcome, whatever the number of its requests.
    var idempotencyKeys: Set<String> { Set(requests.map { $0.headers["idempotency-key"] ?? "" }) }
    var log: [String] { lines.all }
    var logger: Logger { lines.logger() }

    /// Records the request, and answers with a status: that of its number, or the last one.
    func answer(_ request: OriginServer.Request, _ statuses: [Int]) -> OriginServer.Answer {
        let number = received.withLock { received in
            received.append(request)
            return received.count
        }
        return .init(status: statuses[min(number, statuses.count) - 1])
    }

    /// A configuration for servers on this machine, with delays that no test notices.
    static func configuration() -> WebhookConfiguration {
        var configuration = WebhookConfiguration(keys: [key])
        configuration.rules.allowsHTTP = true
        configuration.addressPolicy.allowsPrivate = true
        configuration.schedule.firstDelay = .milliseconds(1)
        configuration.schedule.longestDelay = .milliseconds(5)
        configuration.circuit.opening = .milliseconds(1)
        configuration.circuit.longest = .milliseconds(5)
        configuration.shutdownGrace = .zero
        return configuration
    }

    /// Runs the body with a queue whose leader allows webhooks, and a receiver that answers with these statuses in
    /// turn.
    static func run(
        _ statuses: [Int],
        _ body: (QueueFixture, WebhookReceiver, OriginServer) async throws -> Void
    ) async throws {
        let receiver = WebhookReceiver()
        try await OriginServer.run(responding: { receiver.answer($0, statuses) }) { (server) async throws in
            try await QueueFixture.run { (fixture) async throws in
                try await body(fixture.allowing(WebhookReceiver.configuration().rules), receiver, server)
            }
        }
    }
}

extension QueueFixture {
    /// The same queue, whose leader allows webhooks.
    func allowing(_ rules: WebhookRules) -> QueueFixture {
        let validator = JobValidator(presets: [:], webhooks: rules)
        return QueueFixture(
            server: server,
            redis: redis,
            queue: queue,
            leadership: leadership,
            intake: Intake(queue: queue, name: "leader", validator: validator),
            epoch: epoch
        )
    }

    /// Claims webhooks as the leader does, four of a host at most.
    func claimWebhooks(
        _ count: Int,
        unproven: Int,
        _ inFlight: [String: Int] = [:]
    ) async throws -> [ClaimedWebhook] {
        let limits = JobQueue.WebhookLimits(
            count: count,
            unproven: unproven,
            perHost: 4,
            lease: .seconds(60),
            age: .seconds(60)
        )
        let claimed = try await queue.claimWebhooks(limits, inFlight: inFlight, name: "leader", epoch: epoch)
        return try #require(claimed?.webhooks)
    }

    /// Runs a job for each URL to its end, and moves the outcomes to the queue of webhooks.
    func endJobs(for urls: [URL], first: Int = 0) async throws {
        for (number, url) in urls.enumerated() {
            var job = Job(id: "j\(first + number)", source: "https://example.org/\(number).jpg")
            job.reply = JobReply(webhook: url.absoluteString)
            try await push(job.json())
        }
        try await admitAll(urls.count)
        for job in try await claim(urls.count) {
            let parsed = try Job(json: job.json, wasValidated: true)
            let outcome = JobOutcome(id: job.id, source: parsed.source, status: .done)
            let end = JobCompletion(job: job, outcome: outcome, of: parsed, replyingTo: parsed.reply)
            #expect(try await queue.settle([end], worker: "w1") == [.ok])
        }
        try await moveOutcomes()
    }

    /// Sends webhooks as the leader does, until a condition holds that changes with their number.
    func deliverWebhooks(
        _ configuration: WebhookConfiguration,
        name: String = "leader",
        epoch: Int? = nil,
        logger: Logger,
        until condition: @escaping @Sendable (RedisClient) async throws -> Bool
    ) async throws {
        let delivery = WebhookDelivery(
            queue: queue,
            name: name,
            epoch: epoch ?? self.epoch,
            configuration: configuration,
            sender: try WebhookSender(configuration),
            changes: AsyncSignal(),
            logger: logger
        )
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await delivery.run() }
            let (server, keys) = (server, [keys.webhooks, keys.webhookQueue, keys.webhookState])
            group.addTask { try await server.wait(forChangesOf: keys, until: condition) }
            try await group.next()
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    /// Number of webhooks in the queue.
    func waitingWebhooks() async throws -> Int { try await queue.webhookCount() }
}

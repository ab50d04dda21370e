import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// Outcomes on their way to webhooks, with a real Redis and real HTTP servers.
@Suite(.timeLimit(.minutes(2))) struct WebhookDeliveryTests {
    /// Nothing is left of the webhooks of a queue.
    private func expectNothing(in fixture: QueueFixture) async throws {
        let keys = fixture.keys
        for key in [keys.webhooks, keys.webhookQueue, keys.webhookHosts, keys.webhookState] {
            #expect(try await fixture.count("EXISTS", key) == 0, "\(key)")
        }
        #expect(try await fixture.statistic("outcome_bytes") == 0)
    }

    /// Delivers until no webhook is left.
    private func deliver(
        _ fixture: QueueFixture,
        _ receiver: WebhookReceiver,
        _ configuration: WebhookConfiguration
    ) async throws {
        try await fixture.deliverWebhooks(configuration, logger: receiver.logger, until: Self.isEmpty(fixture))
    }

    private static func isEmpty(_ fixture: QueueFixture) -> @Sendable (RedisClient) async throws -> Bool {
        let key = fixture.keys.webhooks
        return { client in try await client.send(["HLEN", .string(key)]).int == 0 }
    }

    @Test func anOutcomeIsDeliveredOnceAndSigned() async throws {
        try await WebhookReceiver.run([204]) { (fixture, receiver, server) async throws in
            try await fixture.endJobs(for: [server.url("/hook?token=1")])
            #expect(receiver.requests.isEmpty, "only the deliverer sends it")
            #expect(try await fixture.statistic("outcome_bytes") > 0, "it counts in the limit on outcomes")
            try await deliver(fixture, receiver, WebhookReceiver.configuration())
            let request = try #require(receiver.requests.first)
            #expect(receiver.requests.count == 1 && request.method == "POST" && request.path == "/hook?token=1")
            let outcome = try JSONDecoder().decode(JobOutcome.self, from: request.body)
            #expect(outcome.id == "j0" && outcome.status == .done)
            #expect(request.headers["megaton-job"] == "j0" && request.headers["megaton-attempt"] == "1")
            #expect(request.headers["idempotency-key"]?.hasPrefix("j0.") == true)
            #expect(request.headers["content-type"] == "application/json")
            #expect(request.headers["user-agent"] == "megaton/\(Megaton.version)")
            let field = request.headers["megaton-signature"] ?? ""
            let time = try #require(field.firstMatch(of: /^t=(\d+),v1=[0-9a-f]{64}$/).flatMap { Int($0.1) })
            #expect(field == WebhookSignature(keys: [WebhookReceiver.key]).field(of: request.body, at: time))
            #expect(abs(Double(time) - Date().timeIntervalSince1970) < 120)
            try await expectNothing(in: fixture)
            #expect(try await fixture.statistic("webhooks_delivered") == 1)
        }
    }

    @Test func aFailedRequestIsRepeated() async throws {
        try await WebhookReceiver.run([500, 500, 200]) { (fixture, receiver, server) async throws in
            try await fixture.endJobs(for: [server.url("/")])
            try await deliver(fixture, receiver, WebhookReceiver.configuration())
            #expect(receiver.requests.map { $0.headers["megaton-attempt"] } == ["1", "2", "3"])
            #expect(Set(receiver.requests.map(\.body)).count == 1)
            #expect(receiver.idempotencyKeys.count == 1)
            #expect(receiver.log.count { $0.contains("will be retried") && $0.contains("500") } == 2)
            try await expectNothing(in: fixture)
        }
    }

    /// One host accepts connections and never answers; more outcomes wait for it than there are places.
    @Test func aDeadHostDelaysNoOther() async throws {
        try await WebhookReceiver.run([200]) { (fixture, receiver, server) async throws in
            try await OriginServer.run(answer: { _ in .init(status: 200) }) { (dead) async throws in
                dead.hold()
                try await fixture.endJobs(for: Array(repeating: dead.url("/"), count: 20))
                try await fixture.endJobs(for: Array(repeating: server.url("/"), count: 9), first: 20)
                var configuration = WebhookReceiver.configuration()
                configuration.requestTimeout = .seconds(60)
                configuration.concurrency = 6
                let key = fixture.keys.webhooks
                try await fixture.deliverWebhooks(configuration, logger: receiver.logger) { client in
                    try await client.send(["HLEN", .string(key)]).int == 20
                }
                #expect(Set(receiver.requests.compactMap { $0.headers["megaton-job"] }).count == 9)
                #expect(dead.total <= configuration.hostConcurrency)
                #expect(try await fixture.waitingWebhooks() == 20, "none of them is lost")
            }
        }
    }

    /// Nothing listens on the port: after three failures the host is left alone.
    @Test func theCircuitBreakerOfAHostOpens() async throws {
        try await WebhookReceiver.run([200]) { (fixture, receiver, server) async throws in
            let free = try #require(URL(string: "http://127.0.0.1:\(try FreePort.find())/"))
            try await fixture.endJobs(for: Array(repeating: free, count: 5))
            var configuration = WebhookReceiver.configuration()
            configuration.circuit = .init(threshold: 3, opening: .seconds(600), longest: .seconds(600))
            configuration.hostConcurrency = 1
            let (state, host) = (fixture.keys.webhookState, "127.0.0.1:\(free.port ?? 0)")
            try await fixture.deliverWebhooks(configuration, logger: receiver.logger) { client in
                let value = try await client.send(["HGET", .string(state), .string("\(host)\0")]).string ?? ""
                return value.hasPrefix("3 ")
            }
            let next = try await fixture.redis.send(["ZSCORE", .string(fixture.keys.webhookHosts), .string(host)])
            let turn = (next.string.flatMap(Double.init) ?? 0).truncatingRemainder(dividingBy: 1e14)
            let seconds = turn / 1000 - Date().timeIntervalSince1970
            #expect((500...700).contains(seconds), "\(seconds)")
            #expect(try await fixture.waitingWebhooks() == 5)
            // Another host has its turn meanwhile, and an outcome for the same host does not close the breaker.
            try await fixture.endJobs(for: [server.url("/"), free], first: 5)
            let key = fixture.keys.webhooks
            try await fixture.deliverWebhooks(configuration, logger: receiver.logger) { client in
                try await client.send(["HLEN", .string(key)]).int == 6
            }
            #expect(receiver.requests.count == 1)
        }
    }

    /// Claims at most `count` webhooks as the first leader.
    ///
    /// - Returns: nil if another process leads.
    private func claim(_ count: Int, _ fixture: QueueFixture, lease: Duration) async throws -> [ClaimedWebhook]? {
        let limits = JobQueue.WebhookLimits(
            count: count,
            unproven: count,
            perHost: count,
            lease: lease,
            age: .seconds(60)
        )
        let claim = try await fixture.queue.claimWebhooks(limits, inFlight: [:], name: "leader", epoch: fixture.epoch)
        return claim?.webhooks
    }

    /// The process ends after the receiver has answered, and before Redis knows it.
    @Test func aDelivererThatDiesIsReplaced() async throws {
        try await WebhookReceiver.run([200]) { (fixture, receiver, server) async throws in
            try await fixture.endJobs(for: [server.url("/")])
            let configuration = WebhookReceiver.configuration()
            let webhook = try #require(try await claim(9, fixture, lease: .milliseconds(1))?.first)
            #expect(await (try WebhookSender(configuration)).send(webhook) == .delivered)
            try await fixture.leadership.resign()
            let other = Leadership(queue: fixture.queue, name: "other", lease: .seconds(60))
            let epoch = try await other.tryToLead() ?? -1
            try await fixture.deliverWebhooks(
                configuration,
                name: "other",
                epoch: epoch,
                logger: receiver.logger,
                until: Self.isEmpty(fixture)
            )
            #expect(receiver.requests.map { $0.headers["megaton-attempt"] } == ["1", "2"])
            #expect(receiver.idempotencyKeys.count == 1)
            #expect(receiver.requests[0].body == receiver.requests[1].body)
            let isOwn = try await fixture.queue.settle(webhook, .delivered, hasAnswered: true, configuration.circuit)
            #expect(!isOwn, "the claim of the dead process has no effect")
            let late = try await claim(9, fixture, lease: .milliseconds(1))
            #expect(late == nil, "a former leader claims nothing")
            try await expectNothing(in: fixture)
        }
    }

    @Test func aPrivateAddressIsRefused() async throws {
        try await WebhookReceiver.run([200]) { (fixture, receiver, server) async throws in
            try await fixture.endJobs(for: [server.url("/")])
            var configuration = WebhookReceiver.configuration()
            configuration.addressPolicy = AddressPolicy()
            try await deliver(fixture, receiver, configuration)
            #expect(receiver.requests.isEmpty)
            #expect(try await fixture.statistic("webhooks_dropped") == 1)
            let line = try #require(receiver.log.first { $0.hasPrefix("error ") })
            #expect(line.contains("job.id=j0") && line.contains("webhook.host=127.0.0.1:\(server.port)"), "\(line)")
            try await expectNothing(in: fixture)
        }
    }

    /// The rules of the coordinator may have changed since the job was admitted.
    @Test func aHostThatIsNotAllowedAnyMoreIsRefused() async throws {
        try await WebhookReceiver.run([200]) { (fixture, receiver, server) async throws in
            try await fixture.endJobs(for: [server.url("/")])
            var configuration = WebhookReceiver.configuration()
            configuration.rules.hosts = ["example.com"]
            try await deliver(fixture, receiver, configuration)
            #expect(receiver.requests.isEmpty)
            #expect(try await fixture.statistic("webhooks_dropped") == 1)
        }
    }

    @Test func aReceiverThatIsGoneEndsTheAttempts() async throws {
        try await WebhookReceiver.run([410]) { (fixture, receiver, server) async throws in
            try await fixture.endJobs(for: [server.url("/")])
            try await deliver(fixture, receiver, WebhookReceiver.configuration())
            #expect(receiver.requests.count == 1)
            #expect(try await fixture.statistic("webhooks_dropped") == 1)
            #expect(receiver.log.contains { $0.hasPrefix("error ") && $0.contains("410") })
        }
    }

    @Test func theAttemptsAreLimited() async throws {
        try await WebhookReceiver.run([500]) { (fixture, receiver, server) async throws in
            try await fixture.endJobs(for: [server.url("/")])
            var configuration = WebhookReceiver.configuration()
            configuration.schedule.attempts = 3
            try await deliver(fixture, receiver, configuration)
            #expect(receiver.requests.map { $0.headers["megaton-attempt"] } == ["1", "2", "3"])
            #expect(try await fixture.statistic("webhooks_dropped") == 1)
            #expect(receiver.log.contains { $0.hasPrefix("error ") && $0.contains("the last attempt failed") })
            try await expectNothing(in: fixture)
        }
    }

    /// Fault: each end of a coordinator used up an attempt of the requests under way.
    @Test func anAttemptThatIsCancelledDoesNotCount() async throws {
        try await WebhookReceiver.run([200]) { (fixture, receiver, server) async throws in
            try await fixture.endJobs(for: [server.url("/")])
            server.hold()
            try await fixture.deliverWebhooks(WebhookReceiver.configuration(), logger: receiver.logger) { _ in
                await server.waitForRequests("/", count: 1)
                return true
            }
            #expect(receiver.requests.map { $0.headers["megaton-attempt"] } == ["1"])
            #expect(try await fixture.waitingWebhooks() == 1)
            server.release()
            try await deliver(fixture, receiver, WebhookReceiver.configuration())
            #expect(receiver.requests.map { $0.headers["megaton-attempt"] } == ["1", "1"])
            #expect(receiver.idempotencyKeys.count == 1)
            try await expectNothing(in: fixture)
        }
    }

    @Test func anOutcomeThatIsTooOldIsNotSent() async throws {
        try await WebhookReceiver.run([200]) { (fixture, receiver, server) async throws in
            try await fixture.endJobs(for: Array(repeating: server.url("/"), count: 40))
            var configuration = WebhookReceiver.configuration()
            configuration.schedule.age = .milliseconds(-1)
            try await deliver(fixture, receiver, configuration)
            #expect(receiver.requests.isEmpty)
            #expect(try await fixture.statistic("webhooks_dropped") == 40)
            try await expectNothing(in: fixture)
        }
    }

    /// Fault: without a coordinator that has a key, outcomes were never dropped, and filled the limit on outcomes.
    @Test func outcomesExpireAlthoughNoneAreSent() async throws {
        try await WebhookReceiver.run([200]) { (fixture, receiver, server) async throws in
            let other = try #require(URL(string: "https://example.com/hook"))
            try await fixture.endJobs(for: Array(repeating: server.url("/"), count: 70) + [other])
            var keeper = RetentionKeeper(
                queue: fixture.queue,
                batches: .seconds(60),
                retention: Retention(),
                logger: receiver.logger
            )
            #expect(try await keeper.expireWebhooks() == nil)
            #expect(try await fixture.waitingWebhooks() == 71, "they are young")
            keeper.webhooks.age = .milliseconds(-1)
            #expect(try await keeper.expireWebhooks() == nil)
            #expect(receiver.requests.isEmpty)
            #expect(try await fixture.statistic("webhooks_dropped") == 71)
            let errors = receiver.log.filter { $0.hasPrefix("error ") }
            #expect(errors.count == 71 && errors.allSatisfy { $0.contains("waited for more than") }, "\(errors)")
            #expect(errors.contains { $0.contains("job.id=j70") && $0.contains("webhook.host=example.com:443") })
            try await expectNothing(in: fixture)
        }
    }

    @Test func theExpiryContinuesWhereItEnded() async throws {
        try await WebhookReceiver.run([200]) { (fixture, receiver, server) async throws in
            let hosts = try ["a", "b", "c"].map { name in try #require(URL(string: "https://\(name).example/")) }
            try await fixture.endJobs(for: hosts + hosts)
            let sent = try #require(try await claim(1, fixture, lease: .seconds(60))?.first)
            var (place, dropped, calls): (String?, [JobQueue.ExpiredWebhook], Int) = (nil, [], 0)
            repeat {
                let page = try await fixture.queue.expireWebhooks(olderThan: .milliseconds(-1), limit: 2, after: place)
                dropped += page.expired
                place = page.place
                calls += 1
            } while place != nil && calls < 10
            #expect(calls == 4, "three pages of two, and one that is empty")
            #expect(dropped.count == 5 && Set(dropped.map(\.job)).count == 5 && dropped.allSatisfy { $0.attempts == 0 })
            #expect(!dropped.contains { $0.job == sent.job.text }, "it is being sent")
            #expect(
                try await fixture.queue.settle(sent, .delivered, hasAnswered: true, .init()),
                "the claim is still valid"
            )
            try await expectNothing(in: fixture)
        }
    }

    @Test func aRedirectIsNotFollowed() async throws {
        try await WebhookReceiver.run([200]) { (fixture, receiver, server) async throws in
            let target = server.url("/target").absoluteString
            let answer: @Sendable (String) -> OriginServer.Answer = { _ in
                .init(status: 307, headers: [("location", target)])
            }
            try await OriginServer.run(answer: answer) { (moved) async throws in
                try await fixture.endJobs(for: [moved.url("/")])
                var configuration = WebhookReceiver.configuration()
                configuration.schedule.attempts = 1
                try await deliver(fixture, receiver, configuration)
                #expect(moved.total == 1 && receiver.requests.isEmpty)
                #expect(receiver.log.contains { $0.contains("redirect") })
            }
        }
    }

    @Test func theServerDecidesWhenItIsAskedAgain() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let receiver = WebhookReceiver()
            let fixture = fixture.allowing(WebhookReceiver.configuration().rules)
            let answer: @Sendable (String) -> OriginServer.Answer = { _ in
                .init(status: 503, headers: [("retry-after", "600")])
            }
            try await OriginServer.run(answer: answer) { (busy) async throws in
                try await fixture.endJobs(for: [busy.url("/")])
                let (state, host) = (fixture.keys.webhookState, "127.0.0.1:\(busy.port)")
                try await fixture.deliverWebhooks(
                    WebhookReceiver.configuration(),
                    logger: receiver.logger
                ) { client in
                    try await client.send(["HEXISTS", .string(state), .string("\(host)\0")]).int == 1
                }
                #expect(busy.total == 1)
                let hosts = RedisArgument.string(fixture.keys.webhookHosts)
                let next = try await fixture.redis.send(["ZSCORE", hosts, .string(host)]).string
                let turn = (next.flatMap(Double.init) ?? 0).truncatingRemainder(dividingBy: 1e14)
                let seconds = turn / 1000 - Date().timeIntervalSince1970
                #expect((500...601).contains(seconds), "\(seconds)")
            }
        }
    }

    /// An answer without end costs no memory, and its status counts.
    @Test func theBodyOfAnAnswerIsNotRead() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let receiver = WebhookReceiver()
            let fixture = fixture.allowing(WebhookReceiver.configuration().rules)
            let answer: @Sendable (String) -> OriginServer.Answer = { _ in
                .init(body: Data(count: 4 << 20))
            }
            try await OriginServer.run(answer: answer) { (server) async throws in
                try await fixture.endJobs(for: [server.url("/")])
                try await deliver(fixture, receiver, WebhookReceiver.configuration())
                #expect(server.total == 1)
                #expect(try await fixture.statistic("webhooks_delivered") == 1)
            }
        }
    }

    /// Fault: an outcome that was accepted was sent again if no byte of the body came.
    @Test func aBodyThatDoesNotComeIsNotNeeded() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let receiver = WebhookReceiver()
            let fixture = fixture.allowing(WebhookReceiver.configuration().rules)
            let never = OriginStream(piece: Data(count: 1), interval: .hours(1))
            let answer: @Sendable (String) -> OriginServer.Answer = { path in
                .init(status: 202, announcedLength: 10, stream: path == "/stalled" ? never : nil)
            }
            try await OriginServer.run(answer: answer) { (server) async throws in
                try await fixture.endJobs(for: [server.url("/stalled"), server.url("/cut")])
                var configuration = WebhookReceiver.configuration()
                configuration.requestTimeout = .seconds(2)
                try await deliver(fixture, receiver, configuration)
                #expect(server.count("/stalled") == 1 && server.count("/cut") == 1)
                #expect(try await fixture.statistic("webhooks_delivered") == 2)
                #expect(receiver.log.isEmpty, "\(receiver.log)")
                try await expectNothing(in: fixture)
            }
        }
    }

    @Test func anOutcomeWithoutRoomIsDroppedAndLogged() async throws {
        try await WebhookReceiver.run([200]) { (fixture, receiver, server) async throws in
            var job = Job(id: "a", source: "https://example.org/a.jpg")
            job.reply = JobReply(webhook: server.url("/").absoluteString)
            try await fixture.push(job.json())
            try await fixture.admitAll(1)
            let active = try #require(try await fixture.claim().first)
            let outcome = JobOutcome(id: "a", source: job.source, status: .done)
            let end = JobCompletion(job: active, outcome: outcome, of: job, replyingTo: job.reply)
            #expect(try await fixture.queue.settle([end], worker: "w1") == [.ok])
            try await fixture.redis.send(["HSET", .string(fixture.keys.stat), "outcome_limit", "400"])
            try await fixture.moveOutcomes(logger: receiver.logger)
            #expect(try await fixture.statistic("webhooks_dropped") == 1)
            #expect(receiver.log.contains { $0.hasPrefix("error ") && $0.contains("job.id=a") })
            try await expectNothing(in: fixture)
        }
    }
}

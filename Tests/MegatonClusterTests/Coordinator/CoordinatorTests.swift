import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster

@Suite(.timeLimit(.minutes(2))) struct CoordinatorTests {
    @Test func anEpochGrowsWithEachNewLeaderOnly() async throws {
        try await QueueFixture.run { (fixture) async throws in
            #expect(try await fixture.leadership.tryToLead() == 1)
            let other = Leadership(queue: fixture.queue, name: "other", lease: .seconds(60))
            #expect(try await other.tryToLead() == nil)
            try await other.resign()
            #expect(try await other.tryToLead() == nil, "only the leader can resign")
            try await fixture.leadership.resign()
            #expect(try await other.tryToLead() == 2)
        }
    }

    @Test func aLeaderOfThePastIsRefused() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.leadership.resign()
            let other = Leadership(queue: fixture.queue, name: "other", lease: .seconds(60))
            #expect(try await other.tryToLead() == 2)
            await #expect { try await fixture.admit() } throws: { "\($0)".contains("NOTLEADER") }
            #expect(try await fixture.count("LLEN", fixture.keys.jobs) == 1)
        }
    }

    /// Fault: a coordinator that was paused before it published its settings replaced those of its successor.
    @Test func aLeaderOfThePastPublishesNoSettings() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let queue = fixture.queue
            let presets = ["web": [Rendition(name: "small", width: 10)]]
            var rules = WebhookRules()
            rules.hosts = ["example.com"]
            try await fixture.leadership.resign()
            let other = Leadership(queue: queue, name: "other", lease: .seconds(60))
            let epoch = try await other.tryToLead() ?? -1
            let own = LeaderSettings(presets: presets, webhooks: rules)
            try await queue.publish(own, name: "other", epoch: epoch)
            // The former leader under its own name, and one that leads again under an epoch of the past.
            for (name, former) in [("leader", fixture.epoch), ("other", fixture.epoch), ("leader", epoch)] {
                await #expect {
                    try await queue.publish(LeaderSettings(), name: name, epoch: former)
                } throws: {
                    "\($0)".contains("NOTLEADER")
                }
            }
            let published = try await queue.publishedSettings()
            #expect(published.presets == presets && published.webhooks == rules)
            try await queue.publish(LeaderSettings(presets: presets), name: "other", epoch: epoch)
            #expect(try await queue.publishedSettings().webhooks == nil, "it has no key")
            #expect(try await fixture.count("EXISTS", fixture.keys.webhookRules) == 0)
        }
    }

    @Test func jobsStagedByADeadLeaderAreAdmittedOnceByTheNext() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a", batch: "b"), QueueFixture.job("c"))
            // The first leader dies between stage and admit.
            try await fixture.redis.run(
                QueueScripts.stage,
                keys: [
                    fixture.keys.leader, fixture.keys.epoch, fixture.keys.stage(epoch: 1), fixture.keys.stages,
                    fixture.keys.intakes, fixture.keys.credit, fixture.keys.control, fixture.keys.round,
                    fixture.keys.jobs,
                ],
                arguments: ["leader", "1", "10", "0", "0", "10", "", "1"]
            )
            #expect(try await fixture.count("LLEN", fixture.keys.stage(epoch: 1)) == 2)
            try await fixture.redis.send(["DEL", .string(fixture.keys.leader)])
            let other = Leadership(queue: fixture.queue, name: "other", lease: .seconds(60))
            let epoch = try await other.tryToLead() ?? -1
            // Fault: `queue drain --wait` reported an empty queue until the next leader had taken them over.
            #expect(try await fixture.queue.alive() == 2)
            let intake = Intake(queue: fixture.queue, name: "other", validator: JobValidator(presets: [:]))
            try await intake.replay(epoch: epoch)
            var window = AdmissionWindow(limit: 10)
            var staged = StagedJobs()
            let first = try await intake.admit(epoch: epoch, window: &window, staged: &staged, chunk: 10)
            #expect(first == .admitted(.init(admitted: 2)))
            #expect(try await intake.admit(epoch: epoch, window: &window, staged: &staged, chunk: 10) == .empty)
            #expect(try await fixture.batch("b")["total"] == 1)
            #expect(try await fixture.claim(5).map(\.id).sorted() == ["a", "c"])
            #expect(try await fixture.redis.send(["SMEMBERS", .string(fixture.keys.stages)]).array?.count == 1)
        }
    }

    @Test func aReserveGivesWayToACoordinatorAndIsFenced() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.leadership.resign()
            let fallback = Leadership(queue: fixture.queue, name: "w", lease: .seconds(60), isFallback: true)
            let epoch = try #require(try await fallback.tryToLead())
            let other = Leadership(queue: fixture.queue, name: "v", lease: .seconds(60), isFallback: true)
            #expect(try await other.tryToLead() == nil, "a fallback does not replace another one")
            #expect(try await fixture.leadership.tryToLead() == epoch + 1)
            #expect(try await fallback.tryToLead() == nil)
            let intake = Intake(queue: fixture.queue, name: fallback.holder, validator: JobValidator(presets: [:]))
            var window = AdmissionWindow(limit: 10)
            var staged = StagedJobs()
            await #expect {
                _ = try await intake.admit(epoch: epoch, window: &window, staged: &staged, chunk: 10)
            } throws: {
                "\($0)".contains("NOTLEADER")
            }
        }
    }

    /// A round costs as much for one job as for many.
    @Test func aWindowThatIsNearlyFullIsLeftAlone() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for id in ids { try await fixture.push(QueueFixture.job(id)) }
            #expect(try await fixture.admit() == .admitted(.init(admitted: 32)))
            while case .admitted = try await fixture.admit() {}
            let jobs = try await fixture.claim(8)
            #expect(try await fixture.count("HLEN", fixture.keys.body) == 64)
            for job in jobs.dropLast() { _ = try await fixture.finish(job) }
            #expect(try await fixture.admit() == .full)
            _ = try await fixture.finish(jobs[7])
            #expect(try await fixture.admit() == .admitted(.init(admitted: 8)))
        }
    }

    private let ids = (0..<100).map { String(format: "%03d", $0) }

    /// A round admits the jobs validated in the round before, while the next ones are validated and more are staged.
    @Test func roundsThatOverlapAdmitEachOnceAndInOrder() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for id in ids { try await fixture.push(QueueFixture.job(id)) }
            var (staged, admitted) = (StagedJobs(), [Int]())
            while case .admitted(let counts) = try await fixture.round(&staged) { admitted.append(counts.admitted) }
            #expect(admitted == [20, 20, 40, 20])
            #expect(try await fixture.claim(1000).map(\.id) == ids)
            #expect(try await fixture.count("LLEN", fixture.keys.stage(epoch: fixture.epoch)) == 0)
        }
    }

    @Test func aLeaderThatForgotItsStagedJobsReadsTheStageAgain() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for id in ids { try await fixture.push(QueueFixture.job(id)) }
            // Each without local state, as after a lost connection.
            var total = 0
            for _ in 0..<10 {
                var staged = StagedJobs()
                if case .admitted(let counts) = try await fixture.round(&staged) { total += counts.admitted }
            }
            #expect(total == 100)
            #expect(try await fixture.claim(1000).map(\.id) == ids)
        }
    }

    /// After a failover to a master that missed the last rounds, the leader goes on.
    @Test func aLeaderThatRemembersAnotherStageIsRefused() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for id in ids { try await fixture.push(QueueFixture.job(id)) }
            let keys = fixture.keys
            let stage = keys.stage(epoch: fixture.epoch)
            let changing = [keys.jobs, stage, keys.round, keys.body, keys.meta, keys.ready(.normal)]
            var staged = StagedJobs()
            #expect(try await fixture.round(&staged) == .admitted(.init(admitted: 20)))
            for key in changing { try await fixture.redis.send(["COPY", .string(key), .string("\(key).old")]) }
            #expect(try await fixture.round(&staged) == .admitted(.init(admitted: 20)))
            for key in changing {
                try await fixture.redis.send(["COPY", .string("\(key).old"), .string(key), "REPLACE"])
            }
            await #expect { _ = try await fixture.round(&staged) } throws: { "\($0)".contains("STALEROUND") }
            staged = StagedJobs()
            while case .admitted = try await fixture.round(&staged) {}
            #expect(try await fixture.claim(1000).map(\.id).sorted() == ids, "each once")
        }
    }

    /// `stage` goes along with `admit`, and is refused if Redis did not know that script.
    @Test func aRoundGoesOnAfterRedisHasForgottenTheScripts() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for id in ids { try await fixture.push(QueueFixture.job(id)) }
            var (staged, admitted) = (StagedJobs(), [Int]())
            while case .admitted(let counts) = try await fixture.round(&staged) {
                admitted.append(counts.admitted)
                try await fixture.redis.send(["SCRIPT", "FLUSH"])
            }
            #expect(admitted == [20, 20, 40, 20])
            #expect(try await fixture.claim(1000).map(\.id) == ids)
        }
    }

    @Test func stagedJobsAreAdmittedAlthoughTheQueueIsPaused() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for id in ids { try await fixture.push(QueueFixture.job(id)) }
            var staged = StagedJobs()
            #expect(try await fixture.round(&staged) == .admitted(.init(admitted: 20)))
            try await fixture.queue.set(.drain, to: true)
            // The leader dies, and the next one finds the rest in the stage.
            staged = StagedJobs()
            #expect(try await fixture.round(&staged) == .admitted(.init(admitted: 20)))
            #expect(try await fixture.round(&staged) == .admitted(.init(admitted: 20)))
            #expect(try await fixture.round(&staged) == .admitted(.init(admitted: 20)))
            #expect(try await fixture.round(&staged) == .draining)
            #expect(try await fixture.queue.alive() == 80)
            #expect(try await fixture.count("LLEN", fixture.keys.jobs) == 20)
            try await fixture.queue.set(.drain, to: false)
            #expect(try await fixture.round(&staged) == .admitted(.init(admitted: 20)))
            #expect(try await fixture.round(&staged) == .empty)
        }
    }

    @Test func stagedJobsCountAgainstTheWindow() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for id in 0..<25 { try await fixture.push(QueueFixture.job("\(id)")) }
            var window = AdmissionWindow(limit: 17)
            var staged = StagedJobs()
            var rounds: [Intake.Round] = []
            for _ in 0..<4 {
                rounds.append(
                    try await fixture.intake.admit(
                        epoch: fixture.epoch,
                        window: &window,
                        staged: &staged,
                        chunk: 10
                    )
                )
            }
            #expect(rounds.last == .full)
            #expect(try await fixture.count("HLEN", fixture.keys.body) == 17)
            #expect(try await fixture.count("LLEN", fixture.keys.jobs) == 8)
        }
    }

    @Test func theWindowBoundsWhatIsAdmitted() async throws {
        try await QueueFixture.run { (fixture) async throws in
            for id in 0..<5 { try await fixture.push(QueueFixture.job("\(id)")) }
            #expect(try await fixture.admit(window: 3) == .admitted(.init(admitted: 3)))
            #expect(try await fixture.admit(window: 3) == .full)
            let jobs = try await fixture.claim(3)
            #expect(try await fixture.admit(window: 3) == .full)
            _ = try await fixture.queue.retry(
                jobs[0],
                worker: "w1",
                after: .seconds(60),
                countsAttempt: true,
                counters: [:]
            )
            #expect(try await fixture.admit(window: 3) == .admitted(.init(admitted: 1)), "a delayed job takes no room")
        }
    }

    @Test func everyBatchGetsItsTurn() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let many = (0..<90).map { QueueFixture.job("many\($0)", batch: "many") }
            _ = try await fixture.queue.submit(
                many,
                to: "many",
                first: 0,
                isLast: true,
                policy: .init(keepsLedger: false),
                submitter: "me"
            )
            let few = (0..<5).map { QueueFixture.job("few\($0)", batch: "few") }
            _ = try await fixture.queue.submit(
                few,
                to: "few",
                first: 0,
                isLast: true,
                policy: .init(keepsLedger: false),
                submitter: "me"
            )
            // A full chunk is admitted in halves.
            #expect(try await fixture.admit(chunk: 60) == .admitted(.init(admitted: 30)))
            #expect(try await fixture.batch("few")["total"] == 5)
            #expect(try await fixture.batch("many")["total"] == 25)
        }
    }

    @Test func expandsPresetsAndFillsInWhatIsMissing() throws {
        let two = [Rendition(name: "s", width: 9), Rendition(name: "l", width: 99)]
        let validator = JobValidator(presets: ["web": [Rendition(name: "s", width: 9)], "two": two])
        func job(_ json: String) throws -> Job {
            let candidate = validator.validate(Data(json.utf8), batch: "")
            guard case .valid(let job, _) = candidate.verdict else { throw JobError("\(candidate.verdict)") }
            #expect(job.id == candidate.key.id)
            return job
        }
        #expect(try job(#"{"source":"https://h/a","preset":"web"}"#).renditions == [Rendition(name: "s", width: 9)])
        #expect(try job(#"{"source":"https://h/a"}"#).renditions == Job.defaultRenditions)
        #expect(try job(#"{"source":"https://h/a","kind":"fetch"}"#).renditions == nil)
        #expect(try job(#"{"source":"https://h/a"}"#).id != job(#"{"source":"https://h/a"}"#).id)
        #expect(try job(#"{"source":"https://h/a","credential":"partner"}"#).credential == "partner")
        for output in ["{name}", "{stem}-{width}", "{height}.{ext}"] {
            #expect(try job(#"{"source":"x","preset":"two","output":"file:///\#(output)"}"#).renditions == two)
        }
        #expect(!(try OutputTemplate("file:///{ext}").distinguishes(two)))
        let formats = [Rendition(name: "s", width: 9), Rendition(name: "l", width: 9, format: .png)]
        #expect(try OutputTemplate("file:///a.{ext}").distinguishes(formats))
        for (json, word) in [
            (#"{"source":"x","preset":"none"}"#, "web"), (#"{"source":"x","credential":"a b"}"#, "credential"),
            (#"{"source":"x","kind":"fetch","output":"file:///x"}"#, "fetch"),
            // Fault: only the worker noticed it, and reported it as forbidden.
            (
                #"{"source":"x","preset":"two","output":"file:///x/{stem}.{ext}"}"#,
                "several of the 2 renditions; add {name}"
            ),
        ] {
            #expect { try job(json) } throws: { "\($0)".contains(word) }
        }
    }

    @Test(arguments: ["allkeys-lru", "allkeys-random"]) func refusesARedisThatWouldEvictJobs(_ policy: String)
        async throws
    {
        try await RedisServerProcess.run(.init(settings: ["maxmemory-policy \(policy)"])) { server in
            let coordinator = Coordinator(
                .init(),
                redis: server.configuration,
                group: MultiThreadedEventLoopGroup.singleton,
                name: "c",
                logger: Logger(label: "test")
            )
            await #expect { try await coordinator.start() } throws: { "\($0)".contains("maxmemory-policy \(policy)") }
        }
    }

    @Test func admitsWhatIsPushedWhileItRuns() async throws {
        try await RedisServerProcess.run { server in
            var configuration = Coordinator.Configuration()
            configuration.keys = QueueKeys(queue: "test")
            let keys = configuration.keys
            let coordinator = Coordinator(
                configuration,
                redis: server.configuration,
                group: MultiThreadedEventLoopGroup.singleton,
                name: "c",
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
            try await coordinator.start()
            let running = Task { await coordinator.runUntilCancelled() }  // Cancelled below.
            let client = server.client()
            defer { client.close() }
            try await client.send(["LPUSH", .string(keys.jobs), #"{"id":"a","source":"https://h/a"}"#, "nonsense"])
            try await server.wait(forChangesOf: [keys.body, keys.dead]) { client in
                let body = try await client.send(["HEXISTS", .string(keys.body), "a"]).int
                let dead = try await client.send(["ZCARD", .string(keys.dead)]).int
                return body == 1 && dead == 1
            }
            running.cancel()
            await running.value
            #expect(try await client.send(["EXISTS", .string(keys.leader)]).int == 0, "it resigned")
            #expect(try await client.send(["LLEN", .string(keys.jobs)]).int == 0)
        }
    }

    /// An idle worker sends a single read, and runs no script.
    @Test func whereALeaderSweepsAWorkerOnlyLooks() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admit()
            let job = try await fixture.claim()[0]
            #expect(try await fixture.queue.sweep(leads: true) == 0)
            #expect(try await fixture.queue.sweep(leads: true) == 0, "its own gate is none to it")
            #expect(try await fixture.queue.sweep() == nil)
            try await fixture.redis.send(["PEXPIRE", .string(fixture.keys.sweepGate), "600000"])
            try await fixture.expire(job)
            let before = try await fixture.redis.calls("evalsha")
            let look = try await fixture.queue.sweepInTurn(every: .seconds(1))
            #expect(look.swept == 0 && look.pause <= .seconds(1))
            #expect(try await fixture.redis.calls("evalsha") == before)
            try await fixture.redis.send(["DEL", .string(fixture.keys.sweepGate)])
            let sweep = try await fixture.queue.sweepInTurn(every: .seconds(1))
            #expect(sweep.swept == 1 && sweep.pause == .seconds(1))
            #expect(try await fixture.places("a") == ["ready"])
        }
    }

    @Test func aLeaderSweepsSoOftenThatNoOtherProcessHasTo() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await fixture.push(QueueFixture.job("a"))
            try await fixture.admit()
            try await fixture.expire(try await fixture.claim()[0])
            try await fixture.leadership.resign()
            var configuration = Coordinator.Configuration()
            configuration.keys = fixture.keys
            let coordinator = Coordinator(
                configuration,
                redis: fixture.server.configuration,
                group: MultiThreadedEventLoopGroup.singleton,
                name: "c",
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await coordinator.runUntilCancelled() }
                while try await fixture.places("a") != ["ready"], !Task.isCancelled { await Task.yield() }
                // Longer than a worker's gate: the leader takes it again and again, while there is nothing to admit.
                for _ in 0..<5 {
                    while try await fixture.count("PTTL", fixture.keys.sweepGate) <= 850, !Task.isCancelled {
                        await Task.yield()
                    }
                    while try await fixture.count("PTTL", fixture.keys.sweepGate) > 850, !Task.isCancelled {
                        await Task.yield()
                    }
                }
                group.cancelAll()
            }
        }
    }
}

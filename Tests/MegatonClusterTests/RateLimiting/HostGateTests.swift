import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster

/// Rate limits of origins, on a real Redis; time is simulated by changing Redis' state.
@Suite(.timeLimit(.minutes(2))) struct HostGateTests {
    private let url = URL(string: "https://Example.org/a.jpg")!
    private let other = URL(string: "https://example.org/b.jpg")!
    private let host = "example.org:443"

    private func run(_ limits: HostLimits, _ body: (HostGate, QueueFixture) async throws -> Void) async throws {
        try await QueueFixture.run { (fixture) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            try await body(
                HostGate(redis: fixture.redis, keys: fixture.keys, limits: limits, logger: logger),
                fixture
            )
        }
    }

    /// The error of a refused request, or nil.
    private func refusal(_ gate: HostGate) async -> ImagePipeline.Error? {
        do {
            _ = try await gate.enter(url)
            return nil
        } catch {
            return error
        }
    }

    /// Changes one of the numbers of the host's state: 0 tat, 1 slot, 2 factor, 3 blocked, 4 failures, 5 open, 6
    /// halved, 7 mean, 8 path, 9 counts.
    private func set(_ index: Int, _ value: String, _ fixture: QueueFixture) async throws {
        let state = try await fixture.redis.send(["HGET", .string(fixture.keys.rate), .string(host)]).string ?? ""
        var numbers = state.split(separator: " ").map(String.init)
        numbers[index] = value
        try await fixture.redis.send([
            "HSET", .string(fixture.keys.rate), .string(host), .string(numbers.joined(separator: " ")),
        ])
    }

    private func number(_ index: Int, _ fixture: QueueFixture) async throws -> Double {
        let state = try await fixture.redis.send(["HGET", .string(fixture.keys.rate), .string(host)]).string ?? ""
        return Double(state.split(separator: " ")[index]) ?? -1
    }

    /// Fault: a presigned URL was recorded with its signature.
    @Test func aHistoryTellsFetchesApartAndShowsNoSignature() async throws {
        let directory = try TestDirectory()
        let path = directory.path + "/history.jsonl"
        try await QueueFixture.run { (fixture) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let gate = HostGate(
                redis: fixture.redis,
                keys: fixture.keys,
                limits: HostLimits(),
                logger: logger,
                statistics: nil,
                history: History(file: try HistoryFile(path), logger: logger)
            )
            for signature in ["secret1", "secret2", "secret1"] {
                let url = try #require(URL(string: "https://Example.org/a.jpg?X-Amz-Signature=\(signature)"))
                let pass = try await gate.enter(url)
                await gate.leave(pass, .answered)
            }
        }
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(!text.contains("secret") && text.contains(host))
        let keys = try text.split(separator: "\n").map { line in
            try JSONDecoder().decode(HistoryEvent.self, from: Data(line.utf8)).key
        }
        #expect(keys.count == 3 && keys[0] == keys[2] && keys[0] != keys[1])
    }

    @Test func soManyAtATimeInTheWholeCluster() async throws {
        var limits = HostLimits()
        limits.concurrency = 2
        try await run(limits) { (gate, fixture) async throws in
            let first = try await gate.enter(url)
            _ = try await gate.enter(url)
            let refused = try #require(await refusal(gate))
            #expect(refused.code == .throttled && refused.isRetryable && (refused.retryAfter ?? 0) > 0)
            #expect(try await gate.enter(URL(string: "https://other.org/")!).token != nil, "hosts are told apart")
            await gate.leave(first, .answered)
            #expect(await refusal(gate) == nil)
            // The permit of a dead worker expires.
            try await fixture.redis.send(["ZADD", .string(fixture.keys.fetching(host)), "1", "dead"])
            #expect(try await fixture.redis.send(["ZCARD", .string(fixture.keys.fetching(host))]).int == 3)
            #expect(await refusal(gate)?.code == .throttled)
            #expect(try await fixture.redis.send(["ZCARD", .string(fixture.keys.fetching(host))]).int == 2)
        }
    }

    @Test func whatIsHeldIsRenewedAndWhatWasForgottenDoesNotComeBack() async throws {
        try await run(HostLimits()) { (gate, fixture) async throws in
            let key = fixture.keys.fetching(host)
            let pass = try await gate.enter(url)
            let token = RedisArgument.string(try #require(pass.token))
            try await fixture.redis.send(["ZADD", .string(key), "XX", "1", token])
            await gate.renew()
            let score = try await fixture.redis.send(["ZSCORE", .string(key), token]).string.flatMap(Double.init) ?? 0
            #expect(score > 1e12)
            try await fixture.redis.send(["DEL", .string(key)])
            await gate.renew()
            #expect(try await fixture.count("EXISTS", key) == 0)
            await gate.leave(pass, .answered)
        }
    }

    @Test func theRefusedGetTurnsOneAfterTheOther() async throws {
        var limits = HostLimits()
        limits.rate = 1
        limits.burst = 1
        try await run(limits) { (gate, _) async throws in
            for _ in 0..<2 { #expect(await refusal(gate) == nil, "the burst, and the one that is due") }
            let turns = [await refusal(gate), await refusal(gate), await refusal(gate)].compactMap { $0?.retryAfter }
            #expect(turns.count == 3 && turns[1] - turns[0] > 0.9 && turns[2] - turns[1] > 0.9, "\(turns)")
        }
    }

    @Test func aHostThatWantsToBeLeftAloneIs() async throws {
        try await run(HostLimits()) { (gate, fixture) async throws in
            await gate.leave(try await gate.enter(other), .throttled(seconds: 1))
            await gate.leave(try await gate.enter(url), .throttled(seconds: 30))
            let refused = try #require(await refusal(gate))
            #expect(refused.code == .throttled && (refused.retryAfter ?? 0) > 29)
            #expect((29...30).contains(refused.requestedDelay ?? 0))
            #expect(try await number(2, fixture) == 0.5)
            // A second 429 at the same moment is not counted again.
            try await set(3, "0", fixture)
            await gate.leave(try await gate.enter(other), .throttled(seconds: 0))
            #expect(try await number(2, fixture) == 0.5)
            try await set(6, "0", fixture)
            try await set(3, "0", fixture)
            await gate.leave(try await gate.enter(url), .throttled(seconds: 0))
            #expect(try await number(2, fixture) == 0.25)
            try await set(3, "0", fixture)
            await gate.leave(try await gate.enter(url), .answered)
            #expect(try await number(2, fixture) == 0.3, "each answer gives some of it back")
        }
    }

    /// Fault: a 429 for one path blocked the whole host, for all workers.
    @Test func aComplaintAboutOnePathIsNoneAboutTheHost() async throws {
        try await run(HostLimits()) { (gate, fixture) async throws in
            for _ in 0..<3 { await gate.leave(try await gate.enter(url), .throttled(seconds: 3600)) }
            for _ in 0..<2 { await gate.leave(try await gate.enter(other), .answered) }
            #expect(try await number(2, fixture) == 1)
            #expect(try await number(3, fixture) == 0)
            // A 429 for another path comes much later: each may have its own reason.
            try await set(9, "1", fixture)
            await gate.leave(try await gate.enter(other), .throttled(seconds: 30))
            #expect(await refusal(gate) == nil)
            await gate.leave(try await gate.enter(url), .throttled(seconds: 20))
            #expect((19...20).contains(await refusal(gate)?.requestedDelay ?? 0))
        }
    }

    @Test func aHostThatFailsIsBrokenOffAndProbedByOne() async throws {
        var limits = HostLimits()
        limits.breakAfter = 3
        try await run(limits) { (gate, fixture) async throws in
            for _ in 0..<2 { await gate.leave(try await gate.enter(url), .failed) }
            await gate.leave(try await gate.enter(url), .answered)
            for _ in 0..<3 { await gate.leave(try await gate.enter(url), .failed) }
            let refused = try #require(await refusal(gate))
            #expect(refused.code == .throttled && (refused.retryAfter ?? 0) > 4 && (refused.retryAfter ?? 0) <= 5)
            // The open interval is over: one request is let through as a probe, the others wait for its result.
            try await set(5, "0", fixture)
            let probe = try await gate.enter(url)
            #expect(await refusal(gate)?.code == .throttled)
            await gate.leave(probe, .failed)
            #expect((await refusal(gate)?.retryAfter ?? 0) > 9, "twice as long")
            for _ in 0..<2 {
                try await set(5, "0", fixture)
                await gate.leave(try await gate.enter(url), .failed)
            }
            #expect(await refusal(gate)?.code == .unreachable, "by now it costs an attempt")
            try await set(5, "0", fixture)
            await gate.leave(try await gate.enter(url), .answered)
            for _ in 0..<2 { #expect(await refusal(gate) == nil, "well again") }
        }
    }

    @Test func whatWasUnderWayWhenAHostWasBrokenOffSaysNoMore() async throws {
        var limits = HostLimits()
        limits.breakAfter = 2
        try await run(limits) { (gate, _) async throws in
            var passes: [OriginPass] = []
            for _ in 0..<10 { passes.append(try await gate.enter(url)) }
            for pass in passes { await gate.leave(pass, .failed) }
            let left = await refusal(gate)?.retryAfter ?? 0
            #expect(left > 4 && left <= 5, "one wave of failures is one break")
        }
    }

    /// Runs a gate as a worker does.
    private func running(_ limits: HostLimits, _ body: (HostGate, QueueFixture) async throws -> Void) async throws {
        try await run(limits) { (gate, fixture) async throws in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await gate.run() }
                // The gate stores no permits before it runs.
                repeat {
                    await gate.leave(try await gate.enter(url), .answered)
                } while try await fixture.count("ZCARD", fixture.keys.fetching(host)) == 0
                try await body(gate, fixture)
                group.cancelAll()
            }
            let left = try await fixture.count("ZCARD", fixture.keys.fetching(host))
            #expect(left == 0, "it gives back what it has")
        }
    }

    @Test func aPassServesMoreThanOneRequestWhereItsHostIsWell() async throws {
        try await running(HostLimits()) { (gate, fixture) async throws in
            let before = try await fixture.redis.calls("evalsha")
            var tokens: Set<String?> = []
            for _ in 0..<100 {
                let pass = try await gate.enter(url)
                tokens.insert(pass.token)
                await gate.leave(pass, .answered)
            }
            #expect(tokens.count < 50, "each of them serves for a quarter of a second")
            #expect(try await fixture.redis.calls("evalsha") - before < 100)
            while try await fixture.count("ZCARD", fixture.keys.fetching(host)) > 0, !Task.isCancelled {
                await Task.yield()
            }
        }
    }

    /// One worker has successes that it has not reported yet; another one reports something else meanwhile.
    private func withAnOldAnswer(
        _ hear: (HostGate) async throws -> Void,
        _ expect: (QueueFixture) async throws -> Void
    ) async throws {
        var limits = HostLimits()
        limits.breakAfter = 2
        try await running(limits) { (gate, fixture) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let other = HostGate(redis: fixture.redis, keys: fixture.keys, limits: limits, logger: logger)
            await gate.leave(try await gate.enter(url), .answered)
            try await hear(other)
            while try await fixture.count("ZCARD", fixture.keys.fetching(host)) > 0, !Task.isCancelled {
                await Task.yield()
            }
            try await expect(fixture)
        }
    }

    @Test func anOldAnswerEndsNoBreak() async throws {
        try await withAnOldAnswer {
            // One more than needed to open the circuit: the old success may be reported between the first two.
            let passes = [try await $0.enter(url), try await $0.enter(url), try await $0.enter(url)]
            for pass in passes { await $0.leave(pass, .failed) }
        } _: { (fixture) async throws in
            #expect(try await number(5, fixture) > 0)
            #expect(try await number(4, fixture) >= 2)
        }
    }

    @Test func anOldAnswerGivesBackNoLimits() async throws {
        try await withAnOldAnswer {
            await $0.leave(try await $0.enter(other), .throttled(seconds: 1))
            await $0.leave(try await $0.enter(url), .throttled(seconds: 1))
        } _: { (fixture) async throws in
            #expect(try await number(2, fixture) == 0.5)
        }
    }

    @Test func aComplaintEndsThat() async throws {
        try await running(HostLimits()) { (gate, fixture) async throws in
            let (first, second) = (try await gate.enter(url), try await gate.enter(url))
            let third = try await gate.enter(other)
            await gate.leave(first, .answered)
            await gate.leave(second, .throttled(seconds: 30))
            await gate.leave(third, .throttled(seconds: 30))
            #expect(await refusal(gate)?.code == .throttled)
            while try await fixture.count("ZCARD", fixture.keys.fetching(host)) > 0, !Task.isCancelled {
                await Task.yield()
            }
        }
    }

    /// Fault: they were dropped, and occupied slots at their host until they expired in Redis.
    @Test func passesThatCouldNotGoBackGoBackLater() async throws {
        try await running(HostLimits()) { (gate, fixture) async throws in
            let (rate, aside) = (RedisArgument.string(fixture.keys.rate), RedisArgument("aside"))
            await gate.leave(try await gate.enter(url), .none)
            let pass = try await gate.enter(url)
            // From now on Redis refuses both acquiring and releasing.
            try await fixture.redis.send(["RENAME", rate, aside])
            try await fixture.redis.send(["SET", rate, "no hash"])
            try await fixture.redis.send(["PERSIST", .string(fixture.keys.fetching(host))])
            try await fixture.redis.send(["CONFIG", "RESETSTAT"])
            await gate.leave(pass, .answered)
            let other = try #require(URL(string: "https://other.org/"))
            var asked = 0
            repeat {
                #expect(try await gate.enter(other).token == nil)
                asked += 1
            } while try await fixture.refusals() == asked
            try await fixture.redis.send(["RENAME", aside, rate])
            while try await fixture.count("ZCARD", fixture.keys.fetching(host)) > 0, !Task.isCancelled {
                await Task.yield()
            }
        }
    }

    /// Half of the slots, so that permits of a busy host circulate among the workers.
    @Test func aHostNearItsLimitGivesEachPassForOneRequest() async throws {
        var limits = HostLimits()
        limits.concurrency = 2
        try await running(limits) { (gate, fixture) async throws in
            let (first, second) = (try await gate.enter(url), try await gate.enter(url))
            await gate.leave(second, .answered)
            #expect(try await fixture.count("ZCARD", fixture.keys.fetching(host)) == 1)
            await gate.leave(first, .answered)
        }
    }

    @Test func withoutRedisEverybodyMayPass() async throws {
        var configuration = RedisConfiguration(address: .unix(path: "/nowhere/redis.sock"))
        configuration.commandTimeout = .milliseconds(50)
        try await QueueFixture.run { (fixture) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let away = RedisClient(
                configuration,
                role: "test",
                group: .singletonMultiThreadedEventLoopGroup,
                logger: logger
            )
            defer { away.close() }
            let gate = HostGate(redis: away, keys: fixture.keys, limits: HostLimits(), logger: logger)
            let pass = try await gate.enter(url)
            #expect(pass.token == nil)
            await gate.leave(pass, .failed)
        }
    }

    @Test func whatAnAnswerSaysOfItsHost() {
        func outcome(_ code: ImagePipeline.Error.Code, _ status: Int? = nil, after: Double? = nil) -> OriginOutcome {
            OriginOutcome(ImagePipeline.Error(code, "", retryAfter: after, status: status))
        }
        #expect(outcome(.httpStatus, 429, after: 7) == .throttled(seconds: 7))
        #expect(outcome(.httpStatus, 503) == .throttled(seconds: nil))
        #expect(outcome(.httpStatus, 500) == .failed)
        #expect(outcome(.notFound, 404) == .answered)
        #expect(outcome(.unreachable) == .failed && outcome(.timedOut) == .failed)
        #expect(outcome(.cancelled) == .none && outcome(.forbidden) == .none)
    }
}

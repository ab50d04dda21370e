import Foundation
import Logging
import MegatonPipeline
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster

/// Rate limits of origins, on a real Redis; time is simulated by changing Redis' state.
@Suite(.timeLimit(.minutes(2))) struct HostRateLimiterTests {
    private let url = URL(string: "https://Example.org/a.jpg")!
    private let other = URL(string: "https://example.org/b.jpg")!
    private let host = "example.org:443"

    private func run(_ limits: HostLimits, _ body: (HostRateLimiter, QueueFixture) async throws -> Void) async throws {
        try await QueueFixture.run { (fixture) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            try await body(
                HostRateLimiter(redis: fixture.redis, keys: fixture.keys, limits: limits, logger: logger),
                fixture
            )
        }
    }

    /// The error of a refused request, or nil.
    private func refusal(_ limiter: HostRateLimiter) async -> ImagePipeline.Error? {
        do {
            _ = try await limiter.acquire(for: url)
            return nil
        } catch {
            return error
        }
    }

    /// Changes one of the numbers of the host's state: 0 tat, 1 since, 2 factor, 3 blocked, 4 failures, 5 open, 6
    /// halved, 7 mean, 8 path, 9 counts, 10 others, 11 heard.
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

    /// Fault: a host with few requests at a time got a fifth of what it could take: after each request its jobs waited
    /// for a turn that was only estimated.
    @Test(arguments: [nil, 0.1]) func aFreeSlotIsTheNextTurnUnlessTheRateForbidsIt(rate: Double?) async throws {
        var limits = HostLimits()
        (limits.concurrency, limits.rate) = (1, rate)
        try await run(limits) { limiter, fixture in
            let permit = try await limiter.acquire(for: url)
            let later = try await fixture.queue.now() + 60_000
            try await fixture.redis.send(["ZADD", .string(fixture.keys.held), .int(Int(later)), .string(host)])
            await limiter.release(permit, outcome: .answered)
            let turn = try await fixture.redis.send(["ZSCORE", .string(fixture.keys.held), .string(host)]).string
            let isEarly = try #require(turn.flatMap(Double.init)) < Double(later)
            #expect(isEarly == (rate == nil))
            // Fault: after a claim that had found nothing, workers paused for 20 ms at the end of a job.
            #expect(try await fixture.count("LLEN", fixture.keys.wake) == (isEarly ? 1 : 0))
            #expect(try await fixture.count("ZCARD", fixture.keys.held) == 1)
        }
    }

    /// Fault: the jobs of a host that hangs had a turn each millisecond, and the place of jobs of others.
    @Test func theTurnOfAHostThatHangsIsAsFarAsItIsSilent() async throws {
        var limits = HostLimits()
        limits.concurrency = 2
        try await run(limits) { limiter, fixture in
            for _ in 0..<2 {
                await limiter.release(try await limiter.acquire(for: url), outcome: .answered)
            }
            var permits: [FetchPermit] = []
            for _ in 0..<2 { permits.append(try await limiter.acquire(for: url)) }
            for (silence, range) in [(300, 0.25...0.9), (60_000, 0.9...1.1)] {
                let last = try await fixture.queue.now() - silence
                try await set(0, "\(last * 1000)", fixture)
                let turn = try #require(await refusal(limiter)?.hostTurn)
                #expect(range.contains(turn.wait), "after \(silence) ms: \(turn.wait)")
            }
            let before = try await number(7, fixture)
            try await set(7, "1000", fixture)
            await limiter.release(permits.removeFirst(), outcome: .failed)
            #expect(try await number(7, fixture) > 1000, "a request that fails after a long time counts: \(before)")
        }
    }

    @Test func aFreeSlotOfAHostWithoutWaitingJobsIsNoTurn() async throws {
        try await run(HostLimits()) { limiter, fixture in
            await limiter.release(try await limiter.acquire(for: url), outcome: .answered)
            #expect(try await fixture.count("EXISTS", fixture.keys.held) == 0)
        }
    }

    /// Fault: a presigned URL was recorded with its signature.
    @Test func aHistoryDistinguishesFetchesAndShowsNoSignature() async throws {
        let directory = try TestDirectory()
        let path = directory.path + "/history.jsonl"
        try await QueueFixture.run { (fixture) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let limiter = HostRateLimiter(
                redis: fixture.redis,
                keys: fixture.keys,
                limits: HostLimits(),
                logger: logger,
                statistics: nil,
                history: History(file: try HistoryFile(path), logger: logger)
            )
            for signature in ["secret1", "secret2", "secret1"] {
                let url = try #require(URL(string: "https://Example.org/a.jpg?X-Amz-Signature=\(signature)"))
                let permit = try await limiter.acquire(for: url)
                await limiter.release(permit, outcome: .answered)
            }
        }
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(!text.contains("secret") && text.contains(host))
        let keys = try text.split(separator: "\n").map { line in
            try JSONDecoder().decode(HistoryEvent.self, from: Data(line.utf8)).key
        }
        #expect(keys.count == 3 && keys[0] == keys[2] && keys[0] != keys[1])
    }

    @Test func concurrencyIsLimitedAcrossTheCluster() async throws {
        var limits = HostLimits()
        limits.concurrency = 2
        try await run(limits) { (limiter, fixture) async throws in
            let first = try await limiter.acquire(for: url)
            _ = try await limiter.acquire(for: url)
            let refused = try #require(await refusal(limiter))
            #expect(refused.code == .throttled && refused.isRetryable && (refused.retryAfter ?? 0) > 0)
            #expect(
                try await limiter.acquire(for: URL(string: "https://other.org/")!).token != nil,
                "hosts have separate limits"
            )
            await limiter.release(first, outcome: .answered)
            #expect(await refusal(limiter) == nil)
            // The permit of a dead worker expires.
            try await fixture.redis.send(["ZADD", .string(fixture.keys.fetching(host)), "1", "dead"])
            #expect(try await fixture.redis.send(["ZCARD", .string(fixture.keys.fetching(host))]).int == 3)
            #expect(await refusal(limiter)?.code == .throttled)
            #expect(try await fixture.redis.send(["ZCARD", .string(fixture.keys.fetching(host))]).int == 2)
        }
    }

    @Test func permitsInUseAreRenewedAndExpiredOnesStayExpired() async throws {
        try await run(HostLimits()) { (limiter, fixture) async throws in
            let key = fixture.keys.fetching(host)
            let permit = try await limiter.acquire(for: url)
            let token = RedisArgument.string(try #require(permit.token))
            try await fixture.redis.send(["ZADD", .string(key), "XX", "1", token])
            await limiter.renew()
            let score = try await fixture.redis.send(["ZSCORE", .string(key), token]).string.flatMap(Double.init) ?? 0
            #expect(score > 1e12)
            try await fixture.redis.send(["DEL", .string(key)])
            await limiter.renew()
            #expect(try await fixture.count("EXISTS", key) == 0)
            await limiter.release(permit, outcome: .answered)
        }
    }

    @Test func aRefusalNamesTheNextTurnOfTheHostAndItsInterval() async throws {
        var limits = HostLimits()
        limits.rate = 1
        limits.burst = 1
        try await run(limits) { (limiter, _) async throws in
            for _ in 0..<2 { #expect(await refusal(limiter) == nil, "the burst, and the one that is due") }
            for _ in 0..<3 {
                let turn = try #require(await refusal(limiter)?.hostTurn)
                #expect(turn.host == host && !turn.isGivenUp)
                #expect(turn.wait > 0.5 && turn.wait <= 1, "a refusal moves no turn of others")
                #expect(turn.interval == 1)
            }
        }
    }

    @Test func aRetryAfterOfTheHostIsRespected() async throws {
        try await run(HostLimits()) { (limiter, fixture) async throws in
            await limiter.release(try await limiter.acquire(for: other), outcome: .throttled(seconds: 1))
            await limiter.release(try await limiter.acquire(for: url), outcome: .throttled(seconds: 30))
            let refused = try #require(await refusal(limiter))
            #expect(refused.code == .throttled && (refused.retryAfter ?? 0) > 29)
            #expect((29...30).contains(refused.requestedDelay ?? 0))
            #expect(try await number(2, fixture) == 0.5)
            // A second 429 at the same moment is not counted again.
            try await set(3, "0", fixture)
            await limiter.release(try await limiter.acquire(for: other), outcome: .throttled(seconds: 0))
            #expect(try await number(2, fixture) == 0.5)
            try await set(6, "0", fixture)
            try await set(3, "0", fixture)
            await limiter.release(try await limiter.acquire(for: url), outcome: .throttled(seconds: 0))
            #expect(try await number(2, fixture) == 0.25)
            try await set(3, "0", fixture)
            await limiter.release(try await limiter.acquire(for: url), outcome: .answered)
            #expect(try await number(2, fixture) == 0.3, "each success restores a part")
        }
    }

    /// Fault: a 429 for one path blocked the whole host, for all workers.
    @Test func a429ForOnePathDoesNotConcernTheHost() async throws {
        try await run(HostLimits()) { (limiter, fixture) async throws in
            for _ in 0..<3 {
                await limiter.release(try await limiter.acquire(for: url), outcome: .throttled(seconds: 3600))
            }
            for _ in 0..<2 { await limiter.release(try await limiter.acquire(for: other), outcome: .answered) }
            #expect(try await number(2, fixture) == 1)
            #expect(try await number(3, fixture) == 0)
            // A 429 for another path comes much later: each may have its own reason.
            try await set(9, "1", fixture)
            await limiter.release(try await limiter.acquire(for: other), outcome: .throttled(seconds: 30))
            #expect(await refusal(limiter) == nil)
            await limiter.release(try await limiter.acquire(for: url), outcome: .throttled(seconds: 20))
            #expect((19...20).contains(await refusal(limiter)?.requestedDelay ?? 0))
        }
    }

    @Test func failuresOpenTheCircuitAndOneRequestProbesTheHost() async throws {
        var limits = HostLimits()
        limits.failureThreshold = 3
        try await run(limits) { (limiter, fixture) async throws in
            for _ in 0..<2 { await limiter.release(try await limiter.acquire(for: url), outcome: .failed) }
            await limiter.release(try await limiter.acquire(for: url), outcome: .answered)
            for _ in 0..<3 { await limiter.release(try await limiter.acquire(for: url), outcome: .failed) }
            let refused = try #require(await refusal(limiter))
            #expect(refused.code == .throttled && (refused.retryAfter ?? 0) > 4 && (refused.retryAfter ?? 0) <= 5)
            // The open interval is over: one request is let through as a probe, the others wait for its result.
            try await set(5, "0", fixture)
            let probe = try await limiter.acquire(for: url)
            #expect(await refusal(limiter)?.code == .throttled)
            await limiter.release(probe, outcome: .failed)
            #expect((await refusal(limiter)?.retryAfter ?? 0) > 9, "twice as long")
            let turn = try #require(await refusal(limiter)?.hostTurn)
            #expect(turn.wait > 9 && !turn.isGivenUp, "the jobs of the host wait for the next probe")
            // The circuit opened long ago.
            try await set(1, "1000", fixture)
            let last = try #require(await refusal(limiter))
            #expect(last.code == .unreachable && last.hostTurn?.isGivenUp == true, "they wait no longer")
            try await set(5, "0", fixture)
            await limiter.release(try await limiter.acquire(for: url), outcome: .answered)
            #expect(try await number(1, fixture) == 0)
            for _ in 0..<2 { #expect(await refusal(limiter) == nil, "the circuit is closed") }
        }
    }

    /// Fault: the last jobs of a run with a dead host waited for four probes of it, more than a minute.
    @Test(arguments: [OriginOutcome.none, .answered, .failed, .throttled(seconds: nil)])
    func aHostThatNeverAnsweredIsGivenUpSooner(first: OriginOutcome) async throws {
        var limits = HostLimits()
        (limits.failureThreshold, limits.firstConcurrency, limits.patience) = (3, 2, .seconds(60))
        try await run(limits) { limiter, fixture in
            await limiter.release(try await limiter.acquire(for: url), outcome: first)
            let answers = first != .none
            let failures = first == .failed || !answers ? 2 : 3
            for _ in 0..<failures { await limiter.release(try await limiter.acquire(for: url), outcome: .absent) }
            let refused = try #require(await refusal(limiter))
            #expect(refused.hostTurn?.isGivenUp == false, "a short outage costs nothing")
            #expect(refused.message.contains("\(answers ? 3 : 2) consecutive failures"), "\(refused.message)")
            try await set(1, ago: .seconds(15), fixture)
            #expect(await refusal(limiter)?.hostTurn?.isGivenUp == !answers)
            try await set(1, ago: .seconds(90), fixture)
            #expect(await refusal(limiter)?.hostTurn?.isGivenUp == true)
        }
    }

    /// Fault: the jobs of a dead host failed with the state of its circuit breaker, and nothing said why it was open.
    @Test func anOpenCircuitNamesTheLastFailure() async throws {
        var limits = HostLimits()
        limits.failureThreshold = 2
        try await run(limits) { limiter, fixture in
            let target = "https://user:secret@example.org/a.jpg?token=secret"
            for text in ["took longer than 20.0 seconds", "could not be fetched: Couldn't resolve host name"] {
                let cause = ImagePipeline.Error(.unreachable, "\(target) \(text).")
                await limiter.release(try await limiter.acquire(for: url), outcome: .absent, cause: cause)
            }
            let end = " s. The last failure of the host: unreachable: could not be fetched: Couldn't resolve host name."
            let message = try #require(await refusal(limiter)).message
            #expect(message.hasSuffix(end) && !message.contains("secret"), "\(message)")
            #expect(try await number(4, fixture) == 2, "the numbers are where earlier versions read them")
            let rate = RedisArgument.string(fixture.keys.rate)
            let stored = try #require(try await fixture.redis.send(["HGET", rate, .string(host)]).string)
            let now = Double(try await fixture.queue.now())
            #expect(HostState(host, stored: stored, now: now)?.failures == 2)
            // A failure without a known error.
            try await set(5, "0", fixture)
            await limiter.release(try await limiter.acquire(for: url), outcome: .failed)
            #expect(await refusal(limiter)?.message.hasSuffix(end) == true)
            try await set(5, "0", fixture)
            await limiter.release(try await limiter.acquire(for: url), outcome: .answered)
            let healthy = try await fixture.redis.send(["HGET", rate, .string(host)]).string ?? ""
            #expect(healthy.split(separator: " ").count == 12, "an answer ends the row of failures")
        }
    }

    @Test(arguments: [
        ("https://h/a b.jpg failed: no\u{0}route +1", "tls: b.jpg failed: no?route ?1"), ("", "tls"),
        (String(repeating: "é ", count: 200), "tls: " + String(repeating: "? ", count: 57) + "?"),
    ])
    func aFailureIsAShortTextWithoutURLs(_ message: String, _ text: String) {
        let failure = HostFailure(ImagePipeline.Error(.tls, message))
        #expect(failure.description == text)
        #expect(!failure.word.contains(" ") && HostFailure(word: failure.word) == failure)
        #expect(HostFailure(word: "") == nil && HostFailure(word: "a b") == nil && HostFailure(word: nil) == nil)
    }

    /// Changes one of the times of the host's state.
    private func set(_ index: Int, ago: Duration, _ fixture: QueueFixture) async throws {
        let now = try await fixture.queue.now()
        try await set(index, String(Int(now) - ago.wholeMilliseconds), fixture)
    }

    @Test func aHostOfAnEarlierVersionMayHaveAnswered() async throws {
        var limits = HostLimits()
        limits.failureThreshold = 2
        try await run(limits) { limiter, fixture in
            for _ in 0..<2 { await limiter.release(try await limiter.acquire(for: url), outcome: .absent) }
            try await set(1, ago: .seconds(15), fixture)
            #expect(await refusal(limiter)?.hostTurn?.isGivenUp == true)
            let (rate, field) = (RedisArgument.string(fixture.keys.rate), RedisArgument.string(host))
            let state = try #require(try await fixture.redis.send(["HGET", rate, field]).string)
            let numbers = state.split(separator: " ")
            #expect(numbers.count == 12)
            let earlier = numbers.dropLast().joined(separator: " ")
            try await fixture.redis.send(["HSET", rate, field, .string(earlier)])
            #expect(await refusal(limiter)?.hostTurn?.isGivenUp == false)
        }
    }

    /// Fault: the first answer raised the threshold above the failures that had opened the circuit, and closed it.
    @Test(arguments: [OriginOutcome.failed, .throttled(seconds: nil)])
    func aFailureIsNoEndOfAnOpenCircuit(first: OriginOutcome) async throws {
        var limits = HostLimits()
        (limits.failureThreshold, limits.firstConcurrency) = (10, 2)
        try await run(limits) { limiter, fixture in
            for _ in 0..<2 { await limiter.release(try await limiter.acquire(for: url), outcome: .absent) }
            try await set(5, "0", fixture)
            await limiter.release(try await limiter.acquire(for: url), outcome: first)
            if first == .failed {
                #expect((await refusal(limiter)?.retryAfter ?? 0) > 9, "twice as long")
                try await set(5, "0", fixture)
            }
            _ = try await limiter.acquire(for: url)
            #expect(await refusal(limiter)?.code == .throttled, "one probe at a time")
        }
    }

    /// Fault: a host that accepts connections and never answers occupied all places of a run.
    @Test func aHostGetsFewRequestsBeforeItsFirstAnswer() async throws {
        var limits = HostLimits()
        (limits.concurrency, limits.firstConcurrency) = (5, 2)
        try await run(limits) { limiter, fixture in
            let permits = [try await limiter.acquire(for: url), try await limiter.acquire(for: url)]
            let refused = try #require(await refusal(limiter))
            #expect(refused.code == .throttled && (refused.hostTurn?.wait ?? 0) >= 0.02)
            // The host has been silent for three seconds.
            let (requests, token) = (fixture.keys.fetching(host), permits[0].token ?? "")
            try await fixture.redis.send(["ZINCRBY", .string(requests), "-3000", .string(token)])
            #expect(await refusal(limiter)?.hostTurn?.wait == 1, "no answer is near")
            await limiter.release(permits[0], outcome: .answered)
            for _ in 0..<4 { #expect(await refusal(limiter) == nil) }
            #expect(await refusal(limiter)?.code == .throttled, "five with the one that is left")
        }
    }

    /// Fault: a host that had answered its probes with a 503 each was given up with the next failure.
    @Test func anAnswerForOnePathBeginsThePatienceAgain() async throws {
        var limits = HostLimits()
        limits.failureThreshold = 2
        try await run(limits) { limiter, fixture in
            await limiter.release(try await limiter.acquire(for: url), outcome: .answered)
            for _ in 0..<2 { await limiter.release(try await limiter.acquire(for: url), outcome: .absent) }
            try await set(1, ago: .seconds(3600), fixture)
            #expect(await refusal(limiter)?.hostTurn?.isGivenUp == true)
            for outcome in [OriginOutcome.throttled(seconds: nil), .absent] {
                try await set(5, "0", fixture)
                await limiter.release(try await limiter.acquire(for: url), outcome: outcome)
            }
            let refused = try #require(await refusal(limiter), "the circuit is open again")
            #expect(refused.hostTurn?.isGivenUp == false)
        }
    }

    @Test func failuresInFlightWhenTheCircuitOpenedDoNotCount() async throws {
        var limits = HostLimits()
        (limits.failureThreshold, limits.firstConcurrency) = (2, 10)
        try await run(limits) { (limiter, _) async throws in
            var permits: [FetchPermit] = []
            for _ in 0..<10 { permits.append(try await limiter.acquire(for: url)) }
            for permit in permits { await limiter.release(permit, outcome: .failed) }
            let left = await refusal(limiter)?.retryAfter ?? 0
            #expect(left > 4 && left <= 5, "one wave of failures opens the circuit once")
        }
    }

    /// Fault: a request of before the circuit opened that timed out after its pause was taken for a failed probe.
    @Test func aRequestOfBeforeTheCircuitOpenedIsNoProbe() async throws {
        var limits = HostLimits()
        (limits.failureThreshold, limits.firstConcurrency) = (2, 10)
        try await run(limits) { (limiter, fixture) async throws in
            await limiter.release(try await limiter.acquire(for: url), outcome: .answered)
            let old = try await limiter.acquire(for: url)
            for _ in 0..<2 { await limiter.release(try await limiter.acquire(for: url), outcome: .failed) }
            #expect(await refusal(limiter)?.code == .throttled)
            try await set(5, "0", fixture)
            // As if it had opened later: all this takes less than the milliseconds of that time.
            let now = try await fixture.queue.now()
            try await set(1, "\(now + 10_000)", fixture)
            await limiter.release(old, outcome: .absent)
            try await set(1, "\(now - 10_000)", fixture)
            let probe = try await limiter.acquire(for: url)
            await limiter.release(probe, outcome: .failed)
            #expect((await refusal(limiter)?.retryAfter ?? 0) > 9, "the probe counts")
            #expect(await refusal(limiter)?.hostTurn?.isOpen == true)
        }
    }

    /// Runs the limiter as a worker does.
    private func running(_ limits: HostLimits, _ body: (HostRateLimiter, QueueFixture) async throws -> Void)
        async throws
    {
        try await run(limits) { (limiter, fixture) async throws in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await limiter.run() }
                // The limiter caches no permits before it runs.
                repeat {
                    await limiter.release(try await limiter.acquire(for: url), outcome: .answered)
                } while try await fixture.count("ZCARD", fixture.keys.fetching(host)) == 0
                try await body(limiter, fixture)
                group.cancelAll()
            }
            let left = try await fixture.count("ZCARD", fixture.keys.fetching(host))
            #expect(left == 0, "it releases its permits")
        }
    }

    @Test func aPermitOfAHealthyHostServesSeveralRequests() async throws {
        try await running(HostLimits()) { (limiter, fixture) async throws in
            let before = try await fixture.redis.calls("evalsha")
            var tokens: Set<String?> = []
            for _ in 0..<100 {
                let permit = try await limiter.acquire(for: url)
                tokens.insert(permit.token)
                await limiter.release(permit, outcome: .answered)
            }
            #expect(tokens.count < 50, "each of them serves for a quarter of a second")
            #expect(try await fixture.redis.calls("evalsha") - before < 100)
            while try await fixture.count("ZCARD", fixture.keys.fetching(host)) > 0, !Task.isCancelled {
                await Task.yield()
            }
        }
    }

    /// One worker has successes that it has not reported yet; another one reports something else meanwhile.
    private func withALateSuccess(
        _ report: (HostRateLimiter) async throws -> Void,
        _ expect: (QueueFixture) async throws -> Void
    ) async throws {
        var limits = HostLimits()
        limits.failureThreshold = 2
        try await running(limits) { (limiter, fixture) async throws in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let other = HostRateLimiter(redis: fixture.redis, keys: fixture.keys, limits: limits, logger: logger)
            await limiter.release(try await limiter.acquire(for: url), outcome: .answered)
            try await report(other)
            while try await fixture.count("ZCARD", fixture.keys.fetching(host)) > 0, !Task.isCancelled {
                await Task.yield()
            }
            try await expect(fixture)
        }
    }

    @Test func aLateSuccessDoesNotCloseTheCircuit() async throws {
        try await withALateSuccess {
            // One more than needed to open the circuit: the old success may be reported between the first two.
            let permits = [
                try await $0.acquire(for: url), try await $0.acquire(for: url), try await $0.acquire(for: url),
            ]
            for permit in permits { await $0.release(permit, outcome: .failed) }
        } _: { (fixture) async throws in
            #expect(try await number(5, fixture) > 0)
            #expect(try await number(4, fixture) >= 2)
        }
    }

    @Test func aLateSuccessDoesNotRaiseTheLimits() async throws {
        try await withALateSuccess {
            await $0.release(try await $0.acquire(for: other), outcome: .throttled(seconds: 1))
            await $0.release(try await $0.acquire(for: url), outcome: .throttled(seconds: 1))
        } _: { (fixture) async throws in
            #expect(try await number(2, fixture) == 0.5)
        }
    }

    @Test func a429EndsTheReuseOfPermits() async throws {
        try await running(HostLimits()) { (limiter, fixture) async throws in
            let (first, second) = (try await limiter.acquire(for: url), try await limiter.acquire(for: url))
            let third = try await limiter.acquire(for: other)
            await limiter.release(first, outcome: .answered)
            await limiter.release(second, outcome: .throttled(seconds: 30))
            await limiter.release(third, outcome: .throttled(seconds: 30))
            #expect(await refusal(limiter)?.code == .throttled)
            while try await fixture.count("ZCARD", fixture.keys.fetching(host)) > 0, !Task.isCancelled {
                await Task.yield()
            }
        }
    }

    /// Fault: they were dropped, and occupied slots at their host until they expired in Redis.
    @Test func failedReleasesAreRepeated() async throws {
        try await running(HostLimits()) { (limiter, fixture) async throws in
            let (rate, aside) = (RedisArgument.string(fixture.keys.rate), RedisArgument("aside"))
            await limiter.release(try await limiter.acquire(for: url), outcome: .none)
            let permit = try await limiter.acquire(for: url)
            // From now on Redis refuses both acquiring and releasing.
            try await fixture.redis.send(["RENAME", rate, aside])
            try await fixture.redis.send(["SET", rate, "no hash"])
            try await fixture.redis.send(["PERSIST", .string(fixture.keys.fetching(host))])
            try await fixture.redis.send(["CONFIG", "RESETSTAT"])
            await limiter.release(permit, outcome: .answered)
            let other = try #require(URL(string: "https://other.org/"))
            var asked = 0
            repeat {
                #expect(try await limiter.acquire(for: other).token == nil)
                asked += 1
            } while try await fixture.refusals() == asked
            try await fixture.redis.send(["RENAME", aside, rate])
            while try await fixture.count("ZCARD", fixture.keys.fetching(host)) > 0, !Task.isCancelled {
                await Task.yield()
            }
        }
    }

    /// Half of the slots, so that permits of a busy host circulate among the workers.
    @Test func aPermitOfABusyHostServesOneRequest() async throws {
        var limits = HostLimits()
        limits.concurrency = 2
        try await running(limits) { (limiter, fixture) async throws in
            let (first, second) = (try await limiter.acquire(for: url), try await limiter.acquire(for: url))
            await limiter.release(second, outcome: .answered)
            #expect(try await fixture.count("ZCARD", fixture.keys.fetching(host)) == 1)
            await limiter.release(first, outcome: .answered)
        }
    }

    @Test func withoutRedisEveryRequestMayPass() async throws {
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
            let limiter = HostRateLimiter(redis: away, keys: fixture.keys, limits: HostLimits(), logger: logger)
            let permit = try await limiter.acquire(for: url)
            #expect(permit.token == nil)
            await limiter.release(permit, outcome: .failed)
        }
    }

    @Test func outcomesByStatusAndError() {
        func outcome(_ code: ImagePipeline.Error.Code, _ status: Int? = nil, after: Double? = nil) -> OriginOutcome {
            OriginOutcome(ImagePipeline.Error(code, "", retryAfter: after, status: status))
        }
        #expect(outcome(.httpStatus, 429, after: 7) == .throttled(seconds: 7))
        #expect(outcome(.httpStatus, 503) == .throttled(seconds: nil))
        #expect(outcome(.httpStatus, 500) == .failed)
        #expect(outcome(.notFound, 404) == .answered)
        #expect(outcome(.unreachable) == .absent && outcome(.timedOut) == .absent)
        #expect(outcome(.cancelled) == .none && outcome(.forbidden) == .none)
    }
}

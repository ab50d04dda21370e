import Foundation
import MegatonRedis
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCluster
@testable import MegatonCore
@testable import MegatonPipeline

/// Packs in a worker, with a runner that renders nothing and a real Redis.
@Suite(.timeLimit(.minutes(2))) struct PackHandlerTests {
    /// Answers each source, and records how many ran at once.
    private final class Runner: JobRunning {
        struct State {
            var ids: [String] = []
            var count = 0
            var most = 0
        }

        let state = Mutex(State())
        let answer: @Sendable (Job) async -> JobRunner.Result

        init(_ answer: @escaping @Sendable (Job) async -> JobRunner.Result) { self.answer = answer }

        func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result {
            state.withLock { state in
                state.ids.append(job.id ?? "")
                state.count += 1
                state.most = max(state.most, state.count)
            }
            defer { state.withLock { $0.count -= 1 } }
            return await answer(job)
        }
    }

    /// A claimed pack of a batch whose ids are unique.
    ///
    /// - Parameter rewrite: changes its JSON between its admission and its claim.
    private func claimed(
        _ count: Int,
        _ fixture: QueueFixture,
        _ running: RunningJobs,
        labels: Job.Labels? = nil,
        priority: Job.Priority = .normal,
        path: String = "",
        rewrite: ((String) -> String)? = nil
    ) async throws -> ActiveJob {
        let sources = (1...count).map { Pack.Source(id: "p.\($0)", source: "http://a.example/\(path)\($0)") }
        let shared = Job(id: "p", source: "", batch: "b", priority: priority, labels: labels)
        let pack = Pack(sharing: shared, sources: sources)
        _ = try await fixture.queue.push(
            [PushedJob(json: pack.json(), sources: count)],
            to: "b",
            first: 0,
            isLast: true,
            policy: BatchPolicy(keepsLedger: true),
            idsAreUnique: true,
            submitter: "me"
        )
        try await fixture.admit()
        if let rewrite {
            let body = RedisArgument.string(fixture.keys.body)
            let json = try #require(try await fixture.redis.send(["HGET", body, "b/p"]).string)
            try await fixture.redis.send(["HSET", body, "b/p", .string(rewrite(json))])
        }
        let active = try #require(try await fixture.claim().first)
        running.insert(active)
        return active
    }

    @Test(arguments: [1, 4]) func aPackUsesTheFreePlacesOfItsWorker(_ places: Int) async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (runner, running) = (
                Runner { _ in
                    for _ in 0..<20 { await Task.yield() }
                    return .done([])
                }, RunningJobs()
            )
            let active = try await claimed(40, fixture, running)
            await fixture.handler(runner, running: running, places: places).handle(active)
            let batch = try await fixture.batch("b")
            #expect(batch["done"] == 40 && batch.isFinished)
            let state = runner.state.withLock { $0 }
            #expect(state.ids.count == 40 && state.most <= places)
            #expect(running.count == 0)
            #expect(running.lend(of: 1), "all places were given back")
        }
    }

    /// Fault: a pack of a dead host ended its sources in all free places of its worker, and took all processors.
    @Test func thePackOfAHostThatWasGivenUpUsesOnePlace() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (runner, running) = (
                Runner { _ in
                    for _ in 0..<20 { await Task.yield() }
                    var error = ImageError(.unreachable, "away", isRetryable: true)
                    error.hostTurn = HostTurn(host: "a.example:80", wait: 60, interval: 1, isGivenUp: true)
                    return .failed(error)
                }, RunningJobs()
            )
            let handler = fixture.handler(runner, running: running, places: 4)
            #expect(handler.givenUpHosts.isNews("a.example:80", at: .now), "by an earlier job")
            let active = try await claimed(20, fixture, running)
            await handler.handle(active)
            #expect(try await fixture.batch("b")["failed"] == 20)
            #expect(runner.state.withLock { $0.most } == 1)
        }
    }

    /// Fetches each source. All but the first wait until two run at once, for a while.
    private final class Fetcher: JobRunning {
        let state = Mutex(Runner.State())

        func run(_ job: Job, maximumFailureAge: Duration?, metrics: PipelineMetrics) async -> JobRunner.Result {
            metrics.update { $0.originFetches += 1 }
            state.withLock { state in
                state.count += 1
                state.most = max(state.most, state.count)
            }
            defer { state.withLock { $0.count -= 1 } }
            var looks = job.id == "p.1" ? 0 : 10_000
            while looks > 0 && state.withLock({ $0.most < 2 }) {
                looks -= 1
                await Task.yield()
            }
            return .done([])
        }
    }

    /// Fault: the pack ran its sources one after the other to the end, although its host answered again.
    @Test func thePackOfAHostThatAnswersAgainUsesTheFreePlaces() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (runner, running) = (Fetcher(), RunningJobs())
            let handler = fixture.handler(runner, running: running, places: 4)
            #expect(handler.givenUpHosts.isNews("a.example:80", at: .now), "by an earlier job")
            let active = try await claimed(20, fixture, running)
            await handler.handle(active)
            #expect(try await fixture.batch("b")["done"] == 20)
            #expect(runner.state.withLock { $0.most } > 1)
        }
    }

    /// Fault: each error was `failed` in the trace, a wait for the host too.
    @Test func theSpanOfASourceHasTheResultOfItsAttempt() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            let handler = fixture.handler(Runner { _ in .done([]) }, running: running)
            let active = try await claimed(1, fixture, running)
            let job = Job(id: "p.1", source: "http://a.example/1")
            func facts(_ error: ImageError) -> SpanFacts { handler.facts(ofSource: job, in: active, .failed(error)) }
            var error = ImageError(.unreachable, "away", isRetryable: true)
            #expect(facts(error).result == "retry" && facts(error).isError)
            error.hostTurn = HostTurn(host: "a.example:80", wait: 1, interval: 1)
            #expect(facts(error).result == "hold" && !facts(error).isError && facts(error).code == "unreachable")
            error.hostTurn = HostTurn(host: "a.example:80", wait: 1, interval: 1, isGivenUp: true)
            #expect(facts(error).result == "failed" && facts(error).isError)
            active.stop(.batchCancelled)
            #expect(facts(error).result == "cancelled" && !facts(error).isError)
        }
    }

    @Test func eachSourceEndsByItself() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let runner = Runner { job in
                switch job.id {
                case "p.2": .failed(ImageError(.notFound, "gone"))
                case "p.3": .failed(ImageError(.unreachable, "broken", isRetryable: true))
                default: .done([])
                }
            }
            let running = RunningJobs()
            let active = try await claimed(4, fixture, running)
            await fixture.handler(runner, running: running).handle(active)
            let batch = try await fixture.batch("b")
            #expect(batch["done"] == 2 && batch["failed"] == 1 && !batch.isFinished)
            #expect(try await fixture.places("p.2") == ["dead"])
            #expect(try await fixture.places("p.3") == ["delay"])
            let letter = try #require(try await fixture.queue.deadLetter(id: "p.2"))
            #expect(try Job(json: Data(letter.content.job.utf8)).source == "http://a.example/2")
            try await fixture.redis.send(["ZADD", .string(fixture.keys.delay), "XX", "1", "b/p.3"])
            let single = try #require(try await fixture.claim().first)
            #expect(single.counted == 2 && single.packSize == 0)
        }
    }

    /// Ids of the outcomes of the batch of `claimed`, in order.
    private func outcomes(_ fixture: QueueFixture) async throws -> [String] {
        try await fixture.results(of: "b", kept: 0).map { line in
            try JSONDecoder().decode(JobOutcome.self, from: line).id ?? ""
        }
    }

    /// Fault: one outcome stood for all sources, and the others were missing in the ledger.
    @Test func eachSourceOfAPackThatCannotBeReadFails() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (runner, running) = (Runner { _ in .done([]) }, RunningJobs())
            let active = try await claimed(3, fixture, running) { json in
                json.replacing(#""batch":"b""#, with: #""batch":7"#)
                    .replacing(#""http://a.example/2""#, with: #"{"id":"two","source":"http://a.example/2"}"#)
            }
            await fixture.handler(runner, running: running).handle(active)
            #expect(runner.state.withLock { $0.ids }.isEmpty)
            let batch = try await fixture.batch("b")
            #expect(batch["total"] == 3 && batch["failed"] == 3 && batch.isFinished)
            #expect(try await outcomes(fixture) == ["p.1", "two", "p.3"])
            for id in ["p.1", "two", "p.3"] { #expect(try await fixture.places(id) == ["dead"]) }
            let letter = try #require(try await fixture.queue.deadLetter(id: "two"))
            #expect(letter.content.code == "invalid_job" && letter.content.job.contains(#""http://a.example/2""#))
            #expect(try await fixture.redis.send(["HGET", .string(fixture.keys.stat), "packed"]).int == 0)
            #expect(try await fixture.queue.alive() == 0)
        }
    }

    private let longPath = String(repeating: "p", count: 3900) + "/"
    private let longLabels: Job.Labels = ["note": .text(String(repeating: "l", count: 1000))]

    /// Fault: the worker refused a pack that the labels of all sources had made longer than what was pushed.
    @Test func aPackThatHasGrownPast1MiBIsDone() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let (runner, running) = (Runner { _ in .done([]) }, RunningJobs())
            let active = try await claimed(256, fixture, running, labels: longLabels, path: longPath)
            #expect(active.json.count > Job.maximumSize)
            await fixture.handler(runner, running: running).handle(active)
            let batch = try await fixture.batch("b")
            #expect(batch["done"] == 256 && batch.isFinished)
        }
    }

    /// Its dead letters are cut, and say so, as one call must end all of its sources.
    @Test func aLargePackThatCannotBeReadFails() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            let active = try await claimed(256, fixture, running, labels: longLabels, path: longPath) { json in
                json.replacing(#""batch":"b""#, with: #""batch":7"#)
            }
            #expect(active.json.count > Job.maximumSize)
            await fixture.handler(Runner { _ in .done([]) }, running: running).handle(active)
            let batch = try await fixture.batch("b")
            #expect(batch["failed"] == 256 && batch.isFinished)
            let letter = try #require(try await fixture.queue.deadLetter(id: "p.256"))
            #expect(letter.content.job.utf8.count == JobValidator.excerpt)
            #expect(letter.content.message.contains("only the beginning"))
        }
    }

    /// Fault: the reply to the first command about a pack was lost, and its sources ran again after the lease.
    @Test func aPackWhoseConnectionBreaksIsDone() async throws {
        try await QueueFixture.run { (fixture) async throws in
            try await FaultProxy.run(to: .unix(path: fixture.server.socket)) { (proxy) async throws in
                let queue = JobQueue(try proxy.client(), keys: fixture.keys)
                defer { queue.close() }
                _ = try await queue.redis.send(["PING"])
                let (runner, running) = (Runner { _ in .done([]) }, RunningJobs())
                let active = try await claimed(3, fixture, running)
                proxy.cut(afterBytes: 1)
                await fixture.handler(runner, running: running, through: queue).handle(active)
                let batch = try await fixture.batch("b")
                #expect(batch["done"] == 3 && batch.isFinished)
            }
        }
    }

    /// Readers of the outcomes report the two sources without one as missing.
    @Test func theSourcesOfAPackThatAreNotKnownAreCounted() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            let active = try await claimed(3, fixture, running) { _ in "{" }
            await fixture.handler(Runner { _ in .done([]) }, running: running).handle(active)
            let batch = try await fixture.batch("b")
            #expect(batch["total"] == 3 && batch["failed"] == 3 && batch.isFinished)
            #expect(try await outcomes(fixture) == ["p"])
            #expect(try await fixture.queue.deadLetter(id: "p")?.content.job == "{")
            #expect(try await fixture.queue.alive() == 0)
        }
    }

    @Test func sourcesThatTheirHostRefusesWaitTogether() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let runner = Runner { job in
                if job.id == "p.1" { return .done([]) }
                var error = ImageError(.throttled, "later", isRetryable: true)
                error.hostTurn = HostTurn(host: "a.example:80", wait: 60, interval: 1)
                return .failed(error)
            }
            let running = RunningJobs()
            let active = try await claimed(5, fixture, running)
            await fixture.handler(runner, running: running).handle(active)
            #expect(runner.state.withLock { $0.ids } == ["p.1", "p.2"], "the others are not tried")
            #expect(try await fixture.places("p") == ["held"])
            #expect(try await fixture.batch("b")["done"] == 1)
            try await fixture.redis.send(["ZADD", .string(fixture.keys.held), "1", "a.example:80"])
            let rest = try #require(try await fixture.claim().first)
            #expect(rest.packSize == 4 && rest.counted == 1)
        }
    }

    @Test(arguments: [ActiveJob.StopReason.shutdown, .batchCancelled, .leaseLost])
    func aStoppedPackKeepsWhatIsDone(_ reason: ActiveJob.StopReason) async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            let active = try await claimed(5, fixture, running)
            let runner = Runner { job in
                if job.id == "p.2" {
                    active.stop(reason)
                    while !Task.isCancelled { await Task.yield() }
                }
                return .done([])
            }
            await fixture.handler(runner, running: running).handle(active)
            let batch = try await fixture.batch("b")
            switch reason {
            case .shutdown:
                #expect(batch["done"] == 1)
                let rest = try #require(try await fixture.claim(worker: "w2").first)
                #expect(rest.packSize == 4 && rest.counted == 1)
            case .batchCancelled: #expect(batch["done"] == 1 && batch["cancelled"] == 4 && batch.isFinished)
            default:
                #expect(batch.ended == 0)
                #expect(try await fixture.places("p") == ["lease"])
            }
        }
    }

    @Test func aWorkerThatDrainsBeginsWithNoFurtherSource() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            let active = try await claimed(5, fixture, running)
            let runner = Runner { job in
                if job.id == "p.2" { running.beginDraining() }
                return .done([])
            }
            await fixture.handler(runner, running: running).handle(active)
            #expect(runner.state.withLock { $0.ids } == ["p.1", "p.2"])
            #expect(try await fixture.batch("b")["done"] == 2)
            let rest = try #require(try await fixture.claim(worker: "w2").first)
            #expect(rest.packSize == 3 && rest.counted == 1)
        }
    }

    /// Fault: a source that had ended was settled only once another one ended, which may take minutes.
    @Test func aSourceIsSettledWhileAnotherRuns() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            let active = try await claimed(2, fixture, running)
            let wasSettled = Mutex(false)
            let runner = Runner { job in
                if job.id == "p.1" { return .done([]) }
                // It ends only once the other one has been settled.
                while let batch = try? await fixture.batch("b"), batch["done"] == 0 { await Task.yield() }
                wasSettled.withLock { $0 = true }
                return .done([])
            }
            await fixture.handler(runner, running: running, places: 2, interval: .milliseconds(50)).handle(active)
            #expect(wasSettled.withLock { $0 })
            #expect(try await fixture.batch("b")["done"] == 2)
        }
    }

    @Test func aPackWhoseWorkerDiedIsSplitWithoutARun() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            _ = try await claimed(3, fixture, running)
            try await fixture.queue.sweep(dead: ["w1"])
            let again = try #require(try await fixture.claim().first)
            let runner = Runner { _ in .done([]) }
            await fixture.handler(runner, running: running).handle(again)
            #expect(runner.state.withLock { $0.ids }.isEmpty)
            #expect(try await fixture.count("ZCARD", fixture.keys.delay) == 3, "they do not fill the window")
            #expect(try await fixture.queue.waitingJobs(beside: .normal) == .equal, "packs yield to them")
            let singles = try await fixture.claim(5)
            #expect(singles.map(\.id).sorted() == ["p.1", "p.2", "p.3"])
            #expect(singles.allSatisfy { $0.stalls == 1 && $0.packSize == 0 })
        }
    }

    @Test(arguments: [1, 2]) func aPackWithTheLastPlaceLetsOtherJobsRun(_ places: Int) async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            let active = try await claimed(5, fixture, running)
            try await fixture.push(QueueFixture.job("single"))
            try await fixture.admit()
            let runner = Runner { _ in .done([]) }
            await fixture.handler(runner, running: running, places: places, interval: .zero).handle(active)
            let batch = try await fixture.batch("b")
            if places > 1 {
                #expect(batch["done"] == 5, "the other job has a place of its own")
                return
            }
            #expect(batch["done"] == 1)
            #expect(try await fixture.claim().map(\.id) == ["single"])
            let rest = try #require(try await fixture.claim().first)
            #expect(rest.packSize == 4 && rest.counted == 1)
        }
    }

    // Fault: a pack on a worker with one place ran its sources one after the other, while other workers were idle.
    @Test func aPackWithTheLastPlaceSplitsSourcesOffForAnIdleWorker() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            let active = try await claimed(5, fixture, running)
            #expect(try await !fixture.queue.wakeIdleWorker(), "none waits")
            try await fixture.redis.send(["DEL", .string(fixture.keys.wake)])
            let idle = fixture.server.client()
            defer { idle.close() }
            // Awaited below.
            let token = Task { try await idle.send(["BLPOP", .string(fixture.keys.wake), "50"]) }
            while try await fixture.redis.send(["INFO", "clients"]).string?.contains("blocked_clients:1") != true {
                try Task.checkCancellation()
            }
            await fixture.handler(Runner { _ in .done([]) }, running: running, interval: .zero).handle(active)
            _ = try await token.value
            let singles = try await fixture.claim(9, worker: "w2")
            #expect(singles.map(\.id).sorted() == ["p.3", "p.4", "p.5"], "one was the next of the pack")
            #expect(singles.allSatisfy { $0.counted == 1 && $0.packSize == 0 })
            for single in singles { #expect(try await fixture.finish(single, worker: "w2") == .ok) }
            let batch = try await fixture.batch("b")
            #expect(batch["done"] == 5 && batch.isFinished)
        }
    }

    // Fault: a pack of a higher priority ran in one place, and jobs of a lower one in the others.
    @Test(arguments: [(Job.Priority.high, true), (.normal, false)])
    func aPackDoesNotYieldToLowerPriorities(_ priority: Job.Priority, _ shares: Bool) async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            let active = try await claimed(4, fixture, running, priority: priority)
            try await fixture.push(QueueFixture.job("single"))
            try await fixture.admit()
            await fixture.handler(Runner { _ in .done([]) }, running: running, interval: .zero).handle(active)
            let batch = try await fixture.batch("b")
            #expect(batch["done"] == (shares ? 2 : 1))
            let left = try await fixture.claim(9, worker: "w2")
            #expect(left.filter { $0.packSize > 0 }.map(\.packSize) == (shares ? [] : [3]))
            #expect(left.count == (shares ? 3 : 2))
        }
    }

    // While a queue is paused, sources that are split off would wait, and fill the window afterwards.
    @Test func aPackGoesOnWhileTheQueueIsPaused() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            let active = try await claimed(4, fixture, running)
            try await fixture.push(QueueFixture.job("single", priority: .high))
            try await fixture.admit()
            try await fixture.queue.set(.paused, to: true)
            #expect(try await fixture.queue.waitingJobs(beside: .normal) == nil)
            await fixture.handler(Runner { _ in .done([]) }, running: running, interval: .zero).handle(active)
            #expect(try await fixture.batch("b")["done"] == 4)
        }
    }

    // Fault: all sources of a large pack became single jobs, in front of others, although no worker had a place.
    @Test func aPackSplitsOffFewSourcesUntilTheyAreClaimed() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            let active = try await claimed(100, fixture, running, priority: .high)
            try await fixture.push(QueueFixture.job("single"))
            try await fixture.admit()
            let runner = Runner { _ in .done([]) }
            await fixture.handler(runner, running: running, interval: .zero).handle(active)
            // After the first source it splits eight off, and yields to them after the second one: its turn has no
            // length here.
            #expect(runner.state.withLock { $0.ids } == ["p.1", "p.2"])
            #expect(try await fixture.count("LLEN", fixture.keys.ready(.high)) == 9)
            let left = try await fixture.claim(20, worker: "w2").filter { $0.packSize > 0 }
            #expect(left.map(\.packSize) == [90])
        }
    }

    /// The renditions of 200 jobs are 2 MB: one call has at most 512 KiB of them.
    @Test func aLargePackIsSplitInSeveralCalls() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            let sources = (1...200).map { Pack.Source(id: "p.\($0)", source: "http://a.example/\($0)") }
            let output = "file:///" + String(repeating: "long/", count: 2000) + "{hash}.{ext}"
            let pack = Pack(sharing: Job(id: "p", source: "", output: output), sources: sources)
            try await fixture.push(pack.json())
            try await fixture.admit()
            _ = try #require(try await fixture.claim().first)
            try await fixture.queue.sweep(dead: ["w1"])
            let again = try #require(try await fixture.claim().first)
            running.insert(again)
            let before = try await settlements(fixture)
            await fixture.handler(Runner { _ in .done([]) }, running: running).handle(again)
            #expect(try await settlements(fixture) - before >= 4)
            #expect(try await fixture.queue.alive() == 200)
            #expect(try await fixture.count("ZCARD", fixture.keys.lease) == 0)
            #expect(try await fixture.redis.send(["HGET", .string(fixture.keys.stat), "packed"]).int == 0)
        }
    }

    /// Number of scripts that Redis has run.
    private func settlements(_ fixture: QueueFixture) async throws -> Int {
        let info = try await fixture.redis.send(["INFO", "commandstats"]).string ?? ""
        return info.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("cmdstat_eval") }
            .compactMap { $0.split(separator: "=").dropFirst().first?.split(separator: ",").first.flatMap { Int($0) } }
            .reduce(0, +)
    }

    @Test func aSuspectedSourceIsNotRunWithTheOthers() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let running = RunningJobs()
            let active = try await claimed(3, fixture, running)
            let digest = Job(source: "http://a.example/2").sourceDigest
            let score = (try await fixture.queue.now() + 60_000) * 8 + 3
            try await fixture.redis.send(["ZADD", .string(fixture.keys.crashes), .int(Int(score)), .string(digest)])
            let runner = Runner { _ in .done([]) }
            await fixture.handler(runner, running: running).handle(active)
            #expect(runner.state.withLock { $0.ids } == ["p.1", "p.3"])
            let single = try #require(try await fixture.claim().first)
            #expect(single.id == "p.2" && single.isQuarantined)
        }
    }
}

import MegatonCluster
import Testing

@testable import MegatonCLI

/// Jobs of slow hosts are pushed earlier, and nothing else changes its place.
struct PushOrderTests {
    private static let slow = "slow.example:443"

    private func job(_ id: String, _ host: String, isUnique: Bool = true, key: String? = nil) -> JobBuilder.BuiltJob {
        var job = Job(id: id, source: "https://\(host)/\(id).jpg")
        job.idempotencyKey = key
        return .job(job, hasUniqueID: isUnique)
    }

    private func ids(_ jobs: [JobBuilder.BuiltJob]) -> [String] { jobs.map { $0.job?.id ?? "line" } }

    private func ids(_ taken: (early: [JobBuilder.BuiltJob], due: [JobBuilder.BuiltJob])) -> [String] {
        ids(taken.early) + ids(taken.due)
    }

    /// An order with ten jobs of a quick host, and after each of them one of a slow host.
    private func mixed() -> PushOrder {
        var order = PushOrder()
        for number in 0..<10 { order.add([job("q\(number)", "quick.example"), job("s\(number)", "slow.example")]) }
        return order
    }

    @Test func jobsComeAsTheyWereReadIfNoHostIsSlow() {
        var order = mixed()
        order.end(Self.slow, .fetched(0.9))
        let taken = ids(order.take(7, longFetches: 100)) + ids(order.take(100, longFetches: 100))
        #expect(taken == (0..<10).flatMap { ["q\($0)", "s\($0)"] } && order.count == 0 && ids(order.take(5)).isEmpty)
    }

    @Test func jobsOfASlowHostComeFirst() {
        var order = mixed()
        #expect(ids(order.take(4, longFetches: 6)) == ["q0", "s0", "q1", "s1"] && !order.hasSlowJobs())
        order.end(Self.slow, .fetched(3))
        // One job of the host is open.
        #expect(order.hasSlowJobs() && ids(order.take(5, longFetches: 4)) == ["s2", "s3", "s4", "q2", "q3"])
        // Each is taken once, and those that are due are not held back.
        let rest = ids(order.take(20, longFetches: 4))
        #expect(rest == ["q4", "q5", "s5", "q6", "s6", "q7", "s7", "q8", "s8", "q9", "s9"])
        #expect(order.count == 0 && !order.hasSlowJobs())
    }

    @Test func anEndedJobMakesRoomForTheNext() {
        var order = mixed()
        #expect(ids(order.take(2, longFetches: 1)).count == 2)
        order.end(Self.slow, .fetched(3))
        #expect(ids(order.take(2, longFetches: 1)) == ["s1", "q1"])
        #expect(ids(order.take(1, longFetches: 1)) == ["q2"])
        order.end(Self.slow, .fetched(3))
        #expect(ids(order.take(1, longFetches: 1)) == ["s2"])
    }

    /// Fault: of a list that is sorted by host, the slow host at its end was known when all others had ended.
    @Test func theFirstJobOfAHostWithManyComesEarly() {
        var order = PushOrder()
        order.add((0..<500).map { job("\($0)", "before.example") })
        #expect(order.take(500).due.count == 500)
        for host in ["a", "b", "c"] { order.add((0..<32).map { job("\(host)\($0)", "\(host).example") }) }
        order.add((0..<31).map { job("d\($0)", "d.example") })
        #expect(ids(order.take(5)) == ["a0", "b0", "c0", "a1", "a2"])
        // They are known, or have a job that was pushed.
        order.end("b.example:443", .fetched(0.1))
        for host in ["b", "c"] { order.add((32..<64).map { job("\(host)\($0)", "\(host).example") }) }
        let rest = ids(order.take(200))
        #expect(Array(rest.prefix(31)) == (3..<32).map { "a\($0)" } + ["b1", "b2"])
        #expect(rest.count == 186 && order.count == 0)
    }

    @Test func atTheBeginningTheFirstJobOfEachHostComesEarly() {
        var order = PushOrder()
        for host in ["a", "b"] { order.add((0..<3).map { job("\(host)\($0)", "\(host).example") }) }
        #expect(ids(order.take(3)) == ["a0", "b0", "a1"])
        // Hosts of later chunks, too.
        order.add([job("a3", "a.example"), job("c0", "c.example")])
        #expect(ids(order.take(9)) == ["c0", "a2", "b1", "b2", "a3"])
        // Lines that are no jobs have no host.
        order.add([.line(.init("{".utf8)), job("d0", "d.example")])
        #expect(ids(order.take(9)) == ["d0", "line"])
    }

    /// Of two jobs with one id, the first one counts.
    @Test func theFirstJobOfAHostStaysIfItsIDMayOccurTwice() {
        var order = PushOrder()
        order.add([job("x", "a.example", isUnique: false)])
        order.add([job("x", "b.example", isUnique: false)] + (1..<32).map { job("b\($0)", "b.example") })
        #expect(ids(order.take(3)) == ["x", "x", "b1"])
    }

    @Test func withoutPlacesNothingIsMoved() {
        var order = mixed()
        order.end(Self.slow, .fetched(3))
        #expect(ids(order.take(3)) == ["q0", "s0", "q1"])
    }

    @Test func aHostThatFailsOrRecoversIsNotSlow() {
        for seconds in [nil, 0.1] {
            var order = mixed()
            order.end(Self.slow, .fetched(3))
            // The mean follows slowly: one quick image proves little.
            if let seconds {
                order.end(Self.slow, .fetched(seconds))
                #expect(order.hasSlowJobs())
                for _ in 0..<10 { order.end(Self.slow, .fetched(seconds)) }
            } else {
                order.end(Self.slow, .failed)
            }
            #expect(!order.hasSlowJobs() && ids(order.take(2, longFetches: 100)) == ["q0", "s0"])
        }
    }

    @Test func cachedImagesSayNothingAboutAHost() {
        var order = mixed()
        order.end(Self.slow, .fetched(3))
        for _ in 0..<10 { order.end(Self.slow, .fetched(0)) }
        #expect(ids(order.take(1, longFetches: 100)) == ["s0"])
    }

    /// The host with most work left comes first.
    @Test func slowHostsShareByTheirWork() {
        var order = PushOrder()
        order.add([job("q", "quick.example")] + (0..<4).map { job("a\($0)", "a.example") })
        order.add((0..<8).map { job("b\($0)", "b.example") })
        order.end("a.example:443", .fetched(2))
        order.end("b.example:443", .fetched(3))
        #expect(ids(order.take(4, longFetches: 100)) == ["b0", "b1", "b2", "a0"])
        #expect(ids(order.take(20, longFetches: 100)) == ["b3", "b4", "b5", "b6", "b7", "a1", "a2", "a3", "q"])
    }

    /// Of two jobs with one id, the first one counts.
    @Test func jobsWithOneIDKeepTheirOrder() {
        var order = PushOrder()
        order.add([job("x", "quick.example", isUnique: false), job("x", "slow.example", isUnique: false)])
        order.add([job("y", "slow.example", isUnique: false), job("z", "slow.example", key: "k")])
        order.end(Self.slow, .fetched(3))
        // The first job of the host stays, and so do those behind it: equal sources keep their order, too.
        #expect(ids(order.take(1, longFetches: 100)) == ["x"])
        #expect(ids(order.take(2, longFetches: 100)) == ["x", "y"])
        #expect(ids(order.take(2, longFetches: 100)) == ["z"])
    }

    /// Fault: an urgent job passed one with its id that waited in the intake, which was refused then.
    @Test func aJobWhoseIDWasPushedKeepsItsOrder() {
        var order = PushOrder()
        order.add([job("x", "quick.example", isUnique: false), job("y", "quick.example")])
        order.add([job("x", "slow.example", isUnique: false), job("z", "slow.example", isUnique: false)])
        #expect(ids(order.take(1)) == ["x"])
        order.end(Self.slow, .fetched(3))
        #expect(order.takeEarly(9, longFetches: 100).isEmpty)
        #expect(ids(order.take(9, longFetches: 100)) == ["y", "x", "z"])
        // Another host's is free to go.
        order.add([job("w", "quick.example"), job("v", "slow.example", isUnique: false)])
        order.end(Self.slow, .fetched(3))
        #expect(ids(order.take(9, longFetches: 100)) == ["v", "w"])
    }

    /// Fault: a host with an early job said nothing about the others until it had none left.
    @Test func aHostWithAnEarlyJobThatHasEndedIsUsual() {
        let start = ContinuousClock.now
        var order = PushOrder()
        order.add([job("q0", "quick.example"), job("r0", "other.example")])
        order.add((1..<400).map { job("q\($0)", "quick.example") } + [job("s0", "slow.example")])
        order.add((400..<900).map { job("q\($0)", "quick.example") } + [job("s1", "slow.example")])
        #expect(order.take(1, at: start).due.count == 1)
        order.end("quick.example:443", .fetched(2), at: start)
        #expect(order.take(9, longFetches: 1, at: start).early.count == 1)
        for _ in 0..<40 { order.end("quick.example:443", .fetched(0.1), at: start) }
        #expect(order.take(880, longFetches: 1, at: start).early.isEmpty)
        for _ in 0..<700 { order.end("quick.example:443", .fetched(0.1), at: start) }
        order.end("quick.example:443", .fetched(0.1), at: start + .seconds(1))
        #expect(ids(order.takeEarly(9, longFetches: 9, at: start + .seconds(1))) == ["s1"])
    }

    /// Fault: the number of an early job, which has passed all that wait in the intake, was taken for a usual one.
    @Test func anEarlyJobSaysNothingAboutTheOthers() {
        let start = ContinuousClock.now
        var order = PushOrder()
        order.add((0..<10).map { job("a\($0)", "a.example") } + [job("w0", "waiting.example")])
        order.add((0..<300).map { job("q\($0)", "quick.example") })
        order.add([job("a10", "a.example"), job("w1", "waiting.example")])
        #expect(order.take(311, at: start).due.count == 311)
        order.end("a.example:443", .fetched(2), at: start)
        #expect(ids(order.takeEarly(1, longFetches: 20, at: start)) == ["a10"])
        // The mean falls below a second, and all jobs of the host end.
        for _ in 0..<10 { order.end("a.example:443", .fetched(0.1), at: start) }
        order.end("quick.example:443", .other, at: start + .seconds(1))
        #expect(!order.hasSlowJobs(at: start + .seconds(1)))
    }

    /// An order in which a job of a slow host was pushed first, and 200 of quick hosts after it.
    private func overtaken(at start: ContinuousClock.Instant) -> PushOrder {
        var order = PushOrder()
        order.add([job("s0", "slow.example")] + (0..<200).map { job("q\($0)", "quick\($0).example") })
        order.add((1..<41).map { job("s\($0)", "slow.example") } + [job("r0", "quick0.example")])
        #expect(order.take(201, at: start).due.count == 201)
        return order
    }

    /// Fault: a host was slow only when one of its images had arrived, after many seconds.
    @Test func aHostWithAnOverdueJobIsSlow() {
        let start = ContinuousClock.now
        var order = overtaken(at: start)
        for number in 0..<128 { order.end("quick\(number).example:443", .fetched(0.1), at: start + .seconds(1)) }
        #expect(!order.hasSlowJobs(at: start + .seconds(60)), "the order of jobs that run side by side says little")
        order.end("quick128.example:443", .fetched(0.1), at: start + .seconds(61))
        // It may have ended since outcomes were read.
        #expect(!order.hasSlowJobs(at: start + .seconds(70)))
        order.end("quick1.example:443", .other, at: start + .seconds(61.05))
        #expect(!order.hasSlowJobs(at: start + .seconds(70)))
        order.end("quick1.example:443", .other, at: start + .seconds(61.2))
        // It gets four requests at a time until it answers.
        #expect(ids(order.takeEarly(9, longFetches: 9, at: start + .seconds(61.2))) == ["s1", "s2", "s3"])
        #expect(!order.hasSlowJobs(at: start + .seconds(61.2)) && order.unjudged == [Self.slow])
        order.answer([Self.slow: .whole], at: start + .seconds(61.2))
        #expect(ids(order.takeEarly(2, longFetches: 9, at: start + .seconds(61.2))) == ["s4", "s5"])
        // It fails, or has a backlog without being slow, and is left in its place.
        order.end(Self.slow, .failed, at: start + .seconds(70))
        #expect(!order.hasSlowJobs(at: start + .seconds(80)))
        order.end(Self.slow, .fetched(0.1), at: start + .seconds(81))
        #expect(!order.hasSlowJobs(at: start + .seconds(90)))
    }

    /// Fault: of a long chunk that is worked off slowly, all hosts were slow after two seconds, so that none of those
    /// that really are had room.
    @Test func jobsThatWaitForTheirTurnAreNotOverdue() {
        let start = ContinuousClock.now
        var order = PushOrder()
        order.add((0..<1000).map { job("q\($0)", "quick\($0).example") } + [job("r", "quick999.example")])
        #expect(order.take(1000, at: start).due.count == 1000)
        for number in 0..<500 {
            order.end("quick\(number).example:443", .fetched(0.1), at: start + .seconds(Double(number) / 10))
            #expect(!order.hasSlowJobs(at: start + .seconds(Double(number) / 10)))
        }
    }

    /// Fault: jobs that wait for their turn at a quick host were counted as those of a slow one, so that none of these
    /// was pushed early any more.
    @Test func aBacklogOfAQuickHostLeavesRoomForSlowOnes() {
        let start = ContinuousClock.now
        var order = PushOrder()
        order.add([job("s", "slow.example")] + (0..<1000).map { job("q\($0)", "quick.example") })
        order.add([job("r", "quick.example"), job("t", "slow.example")])
        #expect(ids(order.take(1001, at: start)).count == 1001)
        for _ in 0..<200 { order.end("quick.example:443", .fetched(0.1), at: start + .seconds(0.2)) }
        order.end("quick.example:443", .fetched(0.1), at: start + .seconds(60))
        #expect(ids(order.take(1, longFetches: 10, at: start + .seconds(60))) == ["t"])
    }

    /// It says nothing about its host before its time.
    @Test func aJobThatBeginsLaterIsNotOverdue() {
        let start = ContinuousClock.now
        var order = PushOrder()
        var later = Job(id: "later", source: "https://late.example/a.jpg")
        later.notBefore = 4_000_000_000
        order.add([.job(later, hasUniqueID: true)] + (0..<200).map { job("q\($0)", "quick.example") })
        order.add([job("next", "late.example")])
        #expect(order.take(201, at: start).due.count == 201)
        for _ in 0..<199 { order.end("quick.example:443", .fetched(0.1), at: start + .seconds(0.2)) }
        order.end("quick.example:443", .fetched(0.1), at: start + .seconds(60))
        #expect(!order.hasSlowJobs(at: start + .seconds(60)))
    }

    /// Fault: forty jobs of each host that never answers took places of the workers, only to be given back, before
    /// those of a host whose images take long.
    @Test func hostsThatMayNeverAnswerGetFewJobs() {
        let start = ContinuousClock.now
        var order = overtaken(at: start)
        for number in 0..<200 { order.end("quick\(number).example:443", .fetched(0.1), at: start) }
        order.end("quick0.example:443", .other, at: start + .seconds(5))
        #expect(ids(order.takeEarly(20, longFetches: 10, at: start + .seconds(5))) == ["s1", "s2", "s3"])
        order.answer([Self.slow: .nothing], at: start + .seconds(6))
        #expect(order.takeEarly(20, longFetches: 10, at: start + .seconds(6)).isEmpty)
        order.answer([Self.slow: .firstBytes], at: start + .seconds(7))
        #expect(order.unjudged == [Self.slow])
        #expect(order.takeEarly(20, longFetches: 10, at: start + .seconds(7)).count == 6, "four of ten are under way")
    }

    /// Fault: the other jobs of a host whose images take fifteen seconds began when those of all others had passed it.
    @Test func aHostWhoseBodiesTakeLongIsSlow() {
        let start = ContinuousClock.now
        var order = PushOrder()
        order.add((0..<20).map { job("s\($0)", "slow.example") } + [job("q", "quick.example")])
        #expect(order.unjudged.isEmpty && order.take(1, at: start).due.count == 1 && order.unjudged == [Self.slow])
        for time in [0.0, 0.02] { order.answer([Self.slow: .firstBytes], at: start + .seconds(time)) }
        #expect(!order.hasSlowJobs(at: start + .seconds(0.03)), "its body may be on the way")
        #expect(!order.hasSlowJobs(at: start + .seconds(9)), "it may have ended since the last look")
        order.answer([Self.slow: .firstBytes], at: start + .seconds(0.04))
        let taken = order.take(4, longFetches: 4, at: start + .seconds(0.05))
        #expect(ids(taken.early) == ["s1", "s2", "s3"] && ids(taken.due) == ["q"])
        // A body has come, and its outcome is on the way.
        order.answer([Self.slow: .whole], at: start + .seconds(0.2))
        #expect(!order.hasSlowJobs(at: start + .seconds(9)) && order.unjudged == [Self.slow])
        order.end(Self.slow, .fetched(0.2), at: start + .seconds(9))
        #expect(!order.hasSlowJobs(at: start + .seconds(9)) && order.unjudged.isEmpty)
    }

    /// Each question has a limit, and silent hosts hide no other for long.
    @Test func manyHostsAreAskedForInTurn() {
        var order = PushOrder()
        for _ in 0..<2 { order.add((0..<400).map { job("\($0)", "h\($0).example") }) }
        #expect(order.take(400).due.count == 400)
        var asked: Set<String> = []
        for _ in 0..<200 where asked.count < 400 {
            #expect(order.unjudged.count == 256)
            asked.formUnion(order.unjudged)
        }
        #expect(asked.count == 400)
    }

    /// Fault: 256 hosts with long bodies were asked for each time, and no other host ever.
    @Test func hostsWithLongBodiesHideNoOthers() {
        let start = ContinuousClock.now
        var order = PushOrder()
        for _ in 0..<2 { order.add((0..<600).map { job("\($0)", "h\($0).example") }) }
        #expect(order.take(600, at: start).due.count == 600 && order.mayFindSlowHosts)
        let begun = (0..<500).map { "h\($0).example:443" }
        for time in [0.0, 0.02] {
            order.answer(Dictionary(uniqueKeysWithValues: begun.map { ($0, .firstBytes) }), at: start + .seconds(time))
        }
        var asked: Set<String> = []
        for _ in 0..<500 where asked.count < 600 { asked.formUnion(order.unjudged) }
        #expect(asked.count == 600, "their answers are awaited")
        order.answer(Dictionary(uniqueKeysWithValues: begun.map { ($0, .firstBytes) }), at: start + .seconds(1))
        asked = []
        for _ in 0..<500 where asked.count < 600 {
            #expect(order.unjudged.count == 256)
            asked.formUnion(order.unjudged)
        }
        #expect(asked.count == 600, "they are slow")
        for number in 500..<600 { order.end("h\(number).example:443", .fetched(0.1), at: start + .seconds(1)) }
        #expect(!order.mayFindSlowHosts && order.unjudged.count == 256, "all others are slow")
    }

    /// Fault: jobs of hosts that never answer used up the room, and a host that is slow got none.
    @Test func silentHostsLeaveRoomForSlowOnes() {
        let start = ContinuousClock.now
        var order = PushOrder()
        let hosts = (0..<30).map { "dead\($0).example" }
        order.add(hosts.map { job("\($0)-0", $0) } + [job("s0", "slow.example")])
        order.add((0..<300).map { job("q\($0)", "quick\($0).example") })
        for host in hosts { order.add((1..<9).map { job("\(host)-\($0)", host) }) }
        order.add((1..<30).map { job("s\($0)", "slow.example") })
        #expect(order.take(331, at: start).due.count == 331)
        let later = start + .seconds(1)
        for number in 0..<300 { order.end("quick\(number).example:443", .fetched(0.1), at: start) }
        order.end("quick0.example:443", .other, at: later)
        let silent = order.takeEarly(500, longFetches: 40, at: later)
        #expect(silent.count == 0, "one of each of 31 hosts is under way, of 20 at most")
        for time in [0.0, 0.05] { order.answer([Self.slow: .firstBytes], at: later + .seconds(time)) }
        let early = order.takeEarly(500, longFetches: 40, at: later + .seconds(0.05))
        #expect(early.count == 19 && early.allSatisfy { $0.job?.host == Self.slow })
        // With more room, both have a part.
        let further = order.takeEarly(500, longFetches: 100, at: later + .seconds(0.1)).compactMap { $0.job?.host }
        #expect(Set(further).count > 1 && further.contains(Self.slow) && further.count <= 80)
    }

    /// Fault: early jobs of hosts that were slow for a moment only did not count any more, and others took their room.
    @Test func earlyJobsCountUntilTheyHaveEnded() {
        let start = ContinuousClock.now
        var order = PushOrder()
        for number in 0..<20 { order.add((0..<50).map { job("\(number)-\($0)", "h\(number).example") }) }
        #expect(order.take(20, at: start).due.count == 20)
        var taken = 0
        for number in 0..<20 {
            let (host, time) = ("h\(number).example:443", start + .seconds(number))
            order.answer([host: .firstBytes], at: time)
            order.answer([host: .firstBytes], at: time + .milliseconds(40))
            taken += order.takeEarly(500, longFetches: 60, at: time + .milliseconds(40)).count
            order.answer([host: .whole], at: time + .milliseconds(50))
        }
        #expect(taken == 120)
        order.end("h0.example:443", .fetched(0.1), at: start + .seconds(30))
        #expect(order.endedEarly == 0, "its first one was due")
        order.end("h0.example:443", .fetched(0.1), at: start + .seconds(30))
        #expect(order.endedEarly == 1)
    }

    @Test func linesAndFilesHaveNoHost() {
        var order = PushOrder()
        order.add([.line(.init("{".utf8)), .job(Job(id: "f", source: "file:///a.jpg"), hasUniqueID: true)])
        #expect(ids(order.take(5, longFetches: 10)) == ["line", "f"] && order.count == 0)
    }

    @Test func aHostHasALimitOfOpenJobs() {
        var order = PushOrder()
        order.add((0..<200).map { job("s\($0)", "slow.example") } + [job("q", "quick.example")])
        order.end(Self.slow, .fetched(3))
        #expect(ids(order.take(1000, longFetches: 1000)).count == 201)
        order.add((0..<200).map { job("t\($0)", "slow.example") } + [job("r", "quick.example")])
        // 200 are open, so none goes before its turn.
        #expect(ids(order.take(1, longFetches: 1000)) == ["t0"])
    }

    @Test func waitingJobsAreLimitedByNumberAndBytes() {
        var order = PushOrder()
        order.add((0..<19_999).map { job("\($0)", "quick.example") })
        #expect(order.hasRoom)
        order.add([job("last", "quick.example")])
        #expect(!order.hasRoom)
        #expect(ids(order.take(1)).count == 1 && order.hasRoom)
        var large = PushOrder()
        let text = String(repeating: "a", count: 1 << 20)
        large.add((0..<40).map { .job(Job(source: "data:,\($0)\(text)"), hasUniqueID: true) })
        #expect(!large.hasRoom)
        #expect(ids(large.take(10)).count == 10 && large.hasRoom)
    }

    /// Against a plain list, in many steps.
    @Test func eachJobComesOnce() {
        var order = PushOrder()
        var (added, taken): ([String], [String]) = ([], [])
        for step in 0..<2000 {
            let jobs = (0..<(step % 7)).map { job("\(step).\($0)", "h\((step * 7 + $0) % 11).example") }
            order.add(jobs)
            added += ids(jobs)
            if step % 3 == 0 { order.end("h\(step % 11).example:443", .fetched(Double(step % 4))) }
            taken += ids(order.take(step % 5, longFetches: step % 30))
        }
        taken += ids(order.take(.max / 2, longFetches: 30))
        #expect(taken.count == added.count && Set(taken) == Set(added) && order.count == 0)
    }

    @Test func otherFailuresSayNothingAboutAHost() {
        var order = mixed()
        order.end(Self.slow, .fetched(3))
        for _ in 0..<10 { order.end(Self.slow, .other) }
        #expect(ids(order.take(1, longFetches: 100)) == ["s0"])
    }

    @Test func veryLongTimesAreLimited() {
        var order = mixed()
        order.end(Self.slow, .fetched(.greatestFiniteMagnitude))
        order.end("b.example:443", .fetched(.infinity))
        order.end("quick.example:443", .fetched(.nan))
        #expect(ids(order.take(1, longFetches: 100)) == ["s0"])
    }

    /// Of hosts that have no jobs any more.
    @Test func slowHostsAreForgottenIfThereAreTooMany() {
        var order = mixed()
        for number in 0..<1000 { order.end("h\(number).example:443", .fetched(3)) }
        #expect(!order.hasSlowJobs())
        order.end(Self.slow, .fetched(3))
        #expect(ids(order.take(1, longFetches: 100)) == ["s0"])
    }

    @Test func withoutOutcomesNoHostIsKnown() {
        var order = PushOrder(isFollowed: false)
        order.add([job("q", "quick.example"), job("s", "slow.example")])
        order.end(Self.slow, .fetched(3))
        #expect(!order.hasSlowJobs() && ids(order.take(1, longFetches: 100)) == ["q"])
    }

    @Test func earlyJobsAreNamedApart() {
        var order = mixed()
        order.end(Self.slow, .fetched(3))
        let taken = order.take(4, longFetches: 3)
        #expect(ids(taken.early) == ["s0", "s1", "s2"] && ids(taken.due) == ["q0"])
    }
}

/// The end of a reader or a pusher ends the wait of the other.
@Suite(.timeLimit(.minutes(1))) struct ReadAheadTests {
    private func full() -> ReadAhead {
        let ahead = ReadAhead(isFollowed: true)
        ahead.add((0..<20_000).map { .job(Job(source: "https://a.example/\($0)"), hasUniqueID: true) })
        return ahead
    }

    /// Fault: a reader waited for room after its pusher had ended.
    @Test func aReaderWaitsForNoRoomThatIsNotMadeAnyMore() async throws {
        let ahead = full()
        async let hasRoom = ahead.waitForRoom()
        ahead.stop()
        #expect(try await hasRoom == false)
        #expect(try await ahead.waitForRoom() == false)
    }

    @Test func aTakenJobMakesRoom() async throws {
        let ahead = full()
        async let hasRoom = ahead.waitForRoom()
        #expect(ahead.take(10, longFetches: 0).due.count == 10)
        #expect(try await hasRoom)
    }

    @Test func cancellationEndsBothWaits() async throws {
        let (ahead, empty) = (full(), ReadAhead(isFollowed: true))
        let reader = Task { try await ahead.waitForRoom() }
        let pusher = Task { try await empty.waitForJobs() }
        for task in [reader, pusher] {
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
        }
    }

    @Test func theEndIsReportedAfterTheLastJob() async throws {
        let ahead = ReadAhead(isFollowed: false)
        async let hasJobs = ahead.waitForJobs()
        ahead.add([.line(.init("{".utf8))])
        #expect(try await hasJobs && ahead.progress.count == 1)
        ahead.finish()
        #expect(try await ahead.waitForJobs())
        #expect(ahead.take(5, longFetches: 0).due.count == 1)
        #expect(try await ahead.waitForJobs() == false)
        #expect(ahead.progress.count == 1 && ahead.progress.isAtEnd)
    }
}

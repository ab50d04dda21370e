import MegatonCluster
import Testing

@testable import MegatonCLI

/// How many jobs wait in the intake of a batch.
struct IntakeTargetTests {
    @Test func theIntakeGrowsIfItWasEmptyAndShrinksIfItStaysFull() {
        let now = ContinuousClock.now
        var intake = IntakeTarget()
        intake.push(127, in: 127, at: now)
        #expect(intake.hasRoom)
        intake.push(128, in: 128, at: now)
        #expect(!intake.hasRoom)
        intake.observe(waiting: [127], at: now)
        #expect(intake.hasRoom)
        intake.observe(waiting: [128], at: now)
        #expect(!intake.hasRoom)
        for _ in 0..<20 { intake.observe(waiting: [0], at: now) }
        intake.observe(waiting: [128], at: now)
        #expect(!intake.hasRoom, "it is empty because few jobs are pushed at the beginning")
        for _ in 0..<20 { intake.observe(waiting: [0], at: now + .seconds(2)) }
        intake.observe(waiting: [19_999], at: now)
        #expect(intake.hasRoom)
        for _ in 0..<200 { intake.observe(waiting: [20_000], at: now) }
        intake.observe(waiting: [127], at: now)
        #expect(intake.hasRoom)
        intake.observe(waiting: [128], at: now)
        #expect(!intake.hasRoom)
    }

    /// Slow hosts are found at the beginning, and jobs that are ready cannot be overtaken.
    @Test func fewJobsAreOutstandingAtTheBeginning() {
        let now = ContinuousClock.now
        var intake = IntakeTarget()
        intake.observe(longFetches: 600, at: now)
        for _ in 0..<3 { intake.observe(waiting: [0], at: now) }
        #expect(intake.chunk(at: now) == 300 && !intake.isHeldBack(ended: 0, at: now))
        intake.push(600, in: 600, at: now)
        #expect(!intake.isHeldBack(ended: 0, at: now))
        intake.push(1, in: 1, at: now)
        #expect(intake.isHeldBack(ended: 0, at: now) && !intake.isHeldBack(ended: 1, at: now))
        let later = now + .milliseconds(1200)
        #expect(!intake.isHeldBack(ended: 0, at: later) && intake.chunk(at: later) == 500)
        #expect(intake.asksHosts(at: now) && intake.asksHosts(at: now) && intake.asksHosts(at: later))
        #expect(!intake.asksHosts(at: later + .milliseconds(249)) && intake.asksHosts(at: later + .milliseconds(250)))
        // Without workers, a few go anyway.
        var empty = IntakeTarget()
        empty.push(128, in: 128, at: now)
        #expect(empty.chunk(at: now) == 128 && !empty.isHeldBack(ended: 0, at: now))
    }

    /// A list that comes slowly leaves it empty, too.
    @Test func theIntakeDoesNotGrowIfItLasted() {
        let now = ContinuousClock.now
        var intake = IntakeTarget()
        intake.observe(waiting: [128], at: now)
        intake.observe(waiting: [0], at: now + .seconds(2))
        intake.observe(waiting: [128], at: now + .seconds(4))
        #expect(!intake.hasRoom)
    }

    @Test func aPackIsAsManyAsItsJobs() {
        var intake = IntakeTarget()
        intake.push(500, in: 10, at: .now)
        intake.observe(waiting: [2], at: .now)
        #expect(intake.hasRoom)
        intake.observe(waiting: [3], at: .now)
        #expect(!intake.hasRoom)
    }

    /// A shard whose intake is closed leaves the others their jobs.
    @Test func theEmptiestShardDecides() {
        var intake = IntakeTarget()
        intake.push(500, in: 500, at: .now)
        intake.observe(waiting: [5000, 10], at: .now)
        #expect(intake.hasRoom)
        intake.observe(waiting: [5000, 64], at: .now)
        #expect(!intake.hasRoom)
    }

    /// Fault: a fleet that started after the command was not looked for again until the beginning was over.
    @Test func theBeginningWaitsForWorkers() {
        let now = ContinuousClock.now
        var intake = IntakeTarget()
        #expect(intake.placesAreOld(at: now) && intake.needsPlaces(at: now))
        intake.observe(longFetches: 0, at: now)
        intake.push(128, in: 128, at: now)
        #expect(!intake.placesAreOld(at: now + .milliseconds(99)) && intake.placesAreOld(at: now + .milliseconds(100)))
        let later = now + .seconds(60)
        #expect(!intake.isStarting(at: later) && intake.needsPlaces(at: later))
        intake.observe(longFetches: 200, at: later)
        #expect(intake.isStarting(at: later) && intake.needsPlaces(at: later), "further ones may come")
        #expect(!intake.placesAreOld(at: later + .milliseconds(499)))
        #expect(intake.placesAreOld(at: later + .milliseconds(500)))
        intake.observe(longFetches: 400, at: later + .milliseconds(500))
        let end = later + .milliseconds(1200)
        #expect(!intake.isStarting(at: end) && !intake.needsPlaces(at: end) && !intake.placesAreOld(at: end))
        #expect(intake.placesAreOld(at: end + .milliseconds(1300)))
        for places in [0, 400] { intake.observe(longFetches: places, at: end + .seconds(9)) }
        #expect(!intake.isStarting(at: end + .seconds(9)), "all workers were restarted")
    }

    /// A user of Redis who may not read the keys, for example.
    @Test func hostsAreNotAskedForAgainAfterAnErrorThatStays() {
        var intake = IntakeTarget()
        let isAsked = intake.asksHosts(at: .now)
        #expect(isAsked)
        intake.push(300, in: 300, at: .now)
        #expect(intake.isHeldBack(ended: 0, at: .now))
        intake.asksNoHosts()
        #expect(!intake.isHeldBack(ended: 0, at: .now), "nothing more can be known")
        #expect(!intake.asksHosts(at: .now) && !intake.asksHosts(at: .now + .seconds(60)))
    }
}

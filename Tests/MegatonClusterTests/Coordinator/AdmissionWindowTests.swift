import Testing

@testable import MegatonCluster

struct AdmissionWindowTests {
    @Test func isTwoSecondsOfWorkWithinItsLimits() {
        var window = AdmissionWindow(limit: 1000)
        #expect(window.size == 64)
        window.observe(.places(100))
        #expect(window.size == 200, "two for each place")
        let start = ContinuousClock.now
        window.observe(ended: 5000, at: start)
        #expect(window.size == 200, "one look says nothing of the rate")
        window.observe(ended: 5200, at: start + .seconds(1))
        #expect(window.size == 400)
        window.observe(ended: 5200, at: start + .seconds(2))
        #expect(window.size == 360, "a pause does not close it at once")
        window.observe(ended: 15200, at: start + .seconds(3))
        #expect(window.size == 1000)
    }

    /// Fault: jobs that had left their places, as their fetches took long, filled the window of a large fleet.
    @Test func jobsThatHaveLeftTheirPlacesDoNotCount() {
        var window = AdmissionWindow(limit: 250)
        window.observe(.places(100))
        window.observe(ended: 0, running: 400, at: .now)
        #expect(window.size == 500, "200 may be ready, or run in the places")
    }

    /// Fault: the rate of 200 ms in which all places had ended their jobs made the window hold five seconds of work,
    /// and it closed until they were done.
    @Test func jobsThatEndTogetherDoNotWidenIt() {
        var window = AdmissionWindow(limit: 10_000)
        window.observe(.places(85))
        let start = ContinuousClock.now
        var sizes: [Int] = []
        // 85 jobs end every 600 ms: 142 a second.
        for look in 0..<100 {
            window.observe(ended: 85 * (look / 6), at: start + .milliseconds(100 * look))
            sizes.append(window.size)
        }
        #expect(sizes.allSatisfy { (170...340).contains($0) }, "\(sizes)")
        #expect(sizes.suffix(50).allSatisfy { $0 >= 240 }, "\(sizes)")
    }

    @Test func packsHaveRoomForTwoInEachWorker() {
        var window = AdmissionWindow(limit: 1000)
        window.observe(.places(100))
        #expect(window.room(jobs: 150, running: 0, sources: 150, workers: 50) == .init(jobs: 50))
        #expect(window.room(jobs: 0, running: 0, sources: 0, workers: 50) == .init(jobs: 200))
        #expect(window.room(jobs: 4, running: 0, sources: 256, workers: 1).packed == -56, "more than two in a worker")
        // Fault: packs of a dead host in all places closed the intakes until they had failed.
        #expect(window.room(jobs: 4, running: 3, sources: 256, workers: 1).packed == 133, "those that run count once")
        #expect(window.room(jobs: 4, running: 0, sources: 256, workers: 50).packed == 96 * 64)
    }

    /// Fault: ten jobs beside packs of slow images waited in their intake for minutes, also with the priority `high`.
    @Test func packsAndOtherJobsDoNotKeepEachOtherOut() {
        var window = AdmissionWindow(limit: 1000)
        window.observe(.places(100))
        #expect(window.room(jobs: 4, running: 0, sources: 256, workers: 1) == .init(jobs: 196, packed: -56))
        #expect(window.room(jobs: 90, running: 0, sources: 153, workers: 50) == .init(jobs: 110, packed: 47))
        let room = AdmissionWindow.Room(jobs: 10, packed: 37) - (jobs: 3, packed: 64)
        #expect(room == .init(jobs: 7, packed: -27) && room.largest == 7)
        #expect(AdmissionWindow.Room(jobs: 10) - (jobs: 3, packed: 4) == .init(jobs: 3))
    }

    /// Fault: the first pack beside single jobs used up the room of packs, and ran one source at a time.
    @Test func packsHaveHalfOfThePlacesBesideJobsThatFillThem() {
        var window = AdmissionWindow(limit: 1000)
        window.observe(.places(64))
        #expect(window.room(jobs: 129, running: 64, sources: 192, workers: 1) == .init(jobs: -1, packed: 31 * 64))
        #expect((window.room(jobs: 160, running: 64, sources: 160 + 32 * 63, workers: 1).packed ?? 0) == 0)
        window.observe(packs: [20, 12])
        #expect(window.room(jobs: 129, running: 64, sources: 168, workers: 1).packed == 31 * 40)
    }

    /// Fault: if packs had room, each round admitted the single jobs one by one.
    @Test func theRoomOfOneKindMakesNoRoundForTheOther() {
        var window = AdmissionWindow(limit: 1000)
        window.observe(.places(100))
        #expect(window.leastRoom == 25)
        let now = ContinuousClock.now
        #expect(window.admits(.init(jobs: 1, packed: 100), at: now) == .init(jobs: 0, packed: 100))
        #expect(window.admits(.init(jobs: 30, packed: 24), at: now) == .init(jobs: 30, packed: 0))
        #expect(window.admits(.init(jobs: 0, packed: 24), at: now) == nil)
        #expect(window.admits(.init(jobs: 24), at: now) == nil)
        #expect(window.admits(.init(jobs: 24), at: now + .milliseconds(100)) == .init(jobs: 24))
        #expect(window.further(.init(jobs: 24, packed: 25)) == .init(jobs: 0, packed: 25))
        #expect(window.further(.init(jobs: 24)) == nil)
    }

    /// Fault: each of eight shards had two jobs for each place of the fleet, so that a small batch waited for sixteen.
    @Test func shardsShareThePlaces() {
        var window = AdmissionWindow(limit: 1000)
        window.observe(FleetPlaces([(100, 8), (60, 8), (3, 1)]))
        #expect(window.size == 46, "two for each of 20 and 3 places")
        let start = ContinuousClock.now
        window.observe(ended: 0, running: 163, at: start)
        #expect(window.size == 186, "it may use the places of shards without jobs")
        #expect(window.leastRoom == 11)
        window.observe(FleetPlaces([(4, 8)]))
        window.observe(ended: 0, running: 0, at: start)
        #expect(window.size == 8)
        #expect(FleetPlaces([(1, 3), (1, 3), (1, 3)]).ofShard == 1)
        #expect(FleetPlaces([(0, 9), (5, 0)]) == .places(5), "a worker of suspects has no place")
    }

    @Test func knowsWhetherJobsEnd() {
        var window = AdmissionWindow(limit: 1000)
        let start = ContinuousClock.now
        var moving: [Bool] = []
        for ended in [10, 10, 11, 11] {
            window.observe(ended: ended, at: start)
            moving.append(window.isMoving)
        }
        #expect(moving == [false, false, true, false])
    }

    @Test func anEighthOfItIsWorthARound() {
        #expect(AdmissionWindow(limit: 1000).leastRoom == 8)
        #expect(AdmissionWindow(limit: 3).leastRoom == 1)
        var window = AdmissionWindow(limit: 64)
        window.observe(.places(64))
        #expect(window.leastRoom == 1, "a place that is free is not kept waiting")
        window.observe(.places(60))
        #expect(window.leastRoom == 2)
    }

    /// Fault: with two places and jobs of 8 s, a `high` job was admitted only after eight of them had ended.
    @Test func lessRoomIsUsedAfterAWhile() {
        var window = AdmissionWindow(limit: 1000)
        let start = ContinuousClock.now
        let rounds: [(room: Int, after: Int, isAdmitted: Bool)] = [
            (8, 0, true), (0, 0, false), (1, 0, false), (3, 99, false), (1, 100, true), (1, 101, false), (1, 201, true),
            (0, 1000, false),
            // The time begins anew.
            (1, 2000, false),
        ]
        for round in rounds {
            let isAdmitted = window.admits(round.room, at: start + .milliseconds(round.after))
            #expect(isAdmitted == round.isAdmitted, "\(round)")
        }
    }
}

import Testing

@testable import MegatonCluster

struct AdmissionWindowTests {
    @Test func isTwoSecondsOfWorkWithinItsLimits() {
        var window = AdmissionWindow(limit: 1000)
        #expect(window.size == 64)
        window.observe(slots: 100)
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

    /// Fault: the rate of 200 ms in which all places had ended their jobs made the window hold five seconds of work,
    /// and it closed until they were done.
    @Test func jobsThatEndTogetherDoNotWidenIt() {
        var window = AdmissionWindow(limit: 10_000)
        window.observe(slots: 85)
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

    @Test func packsLeaveRoomForTwoInEachWorker() {
        var window = AdmissionWindow(limit: 1000)
        window.observe(slots: 100)
        #expect(window.room(jobs: 150, running: 0, sources: 150, workers: 50) == 50)
        #expect(window.room(jobs: 0, running: 0, sources: 0, workers: 50) == 200)
        #expect(window.room(jobs: 4, running: 0, sources: 256, workers: 1) == -56, "more than two in a worker")
        // Fault: packs of a dead host in all places closed the intakes until they had failed.
        #expect(window.room(jobs: 4, running: 3, sources: 256, workers: 1) == 200 - 4 - 63, "those that run count once")
        #expect(window.room(jobs: 4, running: 0, sources: 256, workers: 50) == 96 * 64)
        #expect(window.room(jobs: 190, running: 0, sources: 190 + 63, workers: 50) == -53, "one pack among many jobs")
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
        window.observe(slots: 64)
        #expect(window.leastRoom == 1, "a place that is free is not kept waiting")
        window.observe(slots: 60)
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

import Testing

@testable import MegatonCluster
@testable import MegatonServer

/// The points and speeds of the dashboard.
@Suite struct DashboardHistoryTests {
    private let start = ContinuousClock.now

    private func counters(done: Int) -> DashboardCounters {
        var counters = DashboardCounters()
        counters.done = done
        return counters
    }

    @Test func ratesAreDifferencesByTime() {
        var history = DashboardHistory()
        history.add(ClusterStatus(), counters(done: 100), time: 1_000, at: start)
        history.add(ClusterStatus(), counters(done: 150), time: 1_010, at: start + .seconds(10))
        #expect(history.points.map(\.done) == [nil, 5])
        #expect(history.points.last?.failed == 0)
        // A queue that was created anew, and a time without a page.
        history.add(ClusterStatus(), counters(done: 20), time: 1_020, at: start + .seconds(20))
        history.add(ClusterStatus(), counters(done: 90), time: 1_060, at: start + .seconds(60))
        #expect(history.points.map(\.done) == [nil, 5, nil, nil])
    }

    @Test func statesAreSummed() {
        var history = DashboardHistory()
        var status = ClusterStatus()
        (status.intake, status.staged, status.ready) = (1, 2, 4)
        (status.running, status.delayed, status.held) = (8, 16, 32)
        status.workers = [5.0, 15, 16].map { silent in
            .init(name: "\(silent)", running: 1, silent: silent, renewal: 5, version: nil, protocolVersion: nil)
        }
        history.add(status, DashboardCounters(), time: 1, at: start)
        let point = history.points.first
        #expect(point?.waiting == 7 && point?.running == 8 && point?.delayed == 48)
        // One has missed more than two heartbeats.
        #expect(point?.workers == 2)
    }

    @Test func noMoreThanAnHourIsKept() {
        var history = DashboardHistory()
        for number in 0..<1_000 {
            let time: Duration = .seconds(10 * number)
            history.add(ClusterStatus(), DashboardCounters(), time: 10 * number, at: start + time)
        }
        #expect(history.points.count == DashboardHistory.capacity)
        #expect(history.points.last?.time == 9_990)
        // After a night without a page only the new point is left.
        history.add(ClusterStatus(), DashboardCounters(), time: 50_000, at: start + .seconds(50_000))
        #expect(history.points.map(\.time) == [50_000])
        // A clock that is set back does not make it grow.
        for number in 0..<1_000 {
            history.add(ClusterStatus(), DashboardCounters(), time: number, at: start + .seconds(60_000 + number))
        }
        #expect(history.points.count == DashboardHistory.capacity)
    }

    @Test func theSpeedOfABatchIsThatOfTheLastMinute() {
        var paces = BatchPaces()
        paces.add([("a", 0)], at: start)
        #expect(paces.speed(of: "a") == nil)
        paces.add([("a", 20), ("b", 5)], at: start + .seconds(10))
        #expect(paces.speed(of: "a") == 2 && paces.speed(of: "b") == nil)
        paces.add([("a", 20)], at: start + .seconds(65))
        #expect(paces.speed(of: "a") == 0)
        // Another batch of the name, and a batch that is not shown any more.
        paces.add([("a", 3)], at: start + .seconds(70))
        #expect(paces.speed(of: "a") == nil && paces.speed(of: "b") == nil)
    }

    @Test func theTimeLeftIsThatOfTheOpenJobs() {
        func batch(_ fields: [String: String], _ speed: Double?) -> DashboardBatch {
            DashboardBatch(BatchSummary(name: "a", counters: BatchCounters(fields)), speed: speed)
        }
        let running = ["submitted": "100", "total": "100", "closed": "1", "done": "30", "failed": "10"]
        let batches = [batch(running, 2), batch(running, 0), batch(running, nil)]
        #expect(batches.map(\.secondsLeft) == [30, nil, nil] && batches[0].ended == 40)
        let finished = batch(running.merging(["finished": "1", "done": "90"]) { $1 }, 2)
        #expect(finished.secondsLeft == nil && finished.jobsPerSecond == nil && finished.isOver)
    }
}

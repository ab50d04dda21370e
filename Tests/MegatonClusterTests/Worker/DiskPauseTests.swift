import MegatonPipeline
import Testing

@testable import MegatonCluster

/// Claims of a worker whose disk is full.
@Suite struct DiskPauseTests {
    private let start = ContinuousClock.now

    @Test func aWorkerWithAFullDiskTriesOneJobAfterEachPause() {
        let disk = DiskPause()
        #expect(disk.limit(at: start) == nil && disk.reason(at: start) == nil)
        #expect(disk.noteFull("full", at: start) == .seconds(10))
        #expect(disk.noteFull("full", at: start + .seconds(9)) == nil, "it began before the pause")
        #expect(!disk.noteRoom(at: start + .seconds(9)), "so did this one")
        #expect(disk.limit(at: start + .seconds(9)) == 0 && disk.reason(at: start + .seconds(9)) == "full")
        #expect(disk.limit(at: start + .seconds(10)) == 1)
        #expect(disk.noteFull("full", at: start + .seconds(11)) == .seconds(20))
        #expect(disk.limit(at: start + .seconds(30)) == 0)
        #expect(disk.limit(at: start + .seconds(31)) == 1)
        #expect(disk.noteRoom(at: start + .seconds(32)) && !disk.noteRoom(at: start + .seconds(32)))
        #expect(disk.limit(at: start + .seconds(32)) == nil && disk.reason(at: start + .seconds(32)) == nil)
        #expect(disk.noteFull("again", at: start + .seconds(33)) == DiskPause.shortest)
    }

    /// Fault: a worker ran one job at a time for as long as none was done, such as those of a host that is down.
    @Test func theLimitEndsIfNoJobFindsTheDiskFull() {
        let disk = DiskPause()
        _ = disk.noteFull("full", at: start)
        #expect(disk.limit(at: start + .seconds(19)) == 1 && disk.reason(at: start + .seconds(19)) == "full")
        #expect(disk.limit(at: start + .seconds(20)) == nil && disk.reason(at: start + .seconds(20)) == nil)
        #expect(disk.noteFull("full", at: start + .seconds(21)) == .seconds(20), "it was not over")
    }

    @Test func aPauseHasALimit() {
        let disk = DiskPause()
        var now = start
        for _ in 0..<20 { now += disk.noteFull("full", at: now) ?? .zero }
        #expect(disk.noteFull("full", at: now) == DiskPause.longest)
    }

    @Test func noPlaceIsFreeDuringAPause() {
        let disk = DiskPause()
        let places = WorkerPlaces(count: 4, waitsForSettlements: false, disk: disk)
        let member = places.add(RunningJobs())
        _ = disk.noteFull("full", at: .now - DiskPause.shortest / 2)
        #expect(places.free(for: member) == 0 && places.reserve(for: member) == 0)
        let over = DiskPause()
        let others = WorkerPlaces(count: 4, waitsForSettlements: false, disk: over)
        let second = others.add(RunningJobs())
        _ = over.noteFull("full", at: .now - DiskPause.shortest)
        #expect(others.free(for: second) == 1 && others.reserve(for: second) == 1)
    }

    @Test func anAttemptThatFindsTheDiskFullIsFreeIfTheWorkerWaits() {
        var retry = RetryPolicy()
        let error = ImagePipeline.Error(.diskFull, "full", isRetryable: false)
        #expect(retry.delay(after: 1, of: 5, error: error, random: 0) == nil && !retry.isFree(error))
        retry.waitsForDisk = true
        #expect(retry.delay(after: 5, of: 5, error: error, random: 0) == .seconds(1) && retry.isFree(error))
        #expect(retry.delay(after: 1, of: 5, error: error, free: 100) == nil, "its outputs fill each disk")
        // A download that fills the directory for temporary files counts.
        let download = ImagePipeline.Error(.diskFull, "full", isRetryable: true)
        #expect(retry.delay(after: 5, of: 5, error: download) == nil && !retry.isFree(download))
    }
}

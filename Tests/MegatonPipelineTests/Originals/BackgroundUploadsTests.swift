import Foundation
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

/// A request does not wait for the upload of its original, unless there are too many uploads.
@Suite(.timeLimit(.minutes(1))) struct BackgroundUploadsTests {
    /// A coordinator whose writes wait until a test lets them through.
    private final class SlowFlights: SingleFlightCoordinating {
        private let gates = Mutex<[Promise<Void>]>([])
        private let isOpen = Mutex(false)

        func begin(_ keys: [CacheKey], after waits: [SingleFlight.Waiter]) async -> [SingleFlight.Decision] {
            keys.map { .lead(SingleFlight.Leader(key: $0, token: 1)) }
        }

        func wait(for flight: SingleFlight.Waiter) async {}

        func finish(_ entries: [(leader: SingleFlight.Leader, entry: CachedData?)]) async -> Set<CacheKey> {
            let gate = Promise<Void>()
            if isOpen.withLock({ $0 }) { return [] }
            gates.withLock { $0.append(gate) }
            await gate.value
            return []
        }

        func fail(_ leaders: [SingleFlight.Leader], error: ImageError) async {}

        var isOpened: Bool { isOpen.withLock { $0 } }

        /// Number of writes that wait.
        var count: Int { gates.withLock { $0.count } }

        func open() {
            isOpen.withLock { $0 = true }
            for gate in gates.withLock({ $0 }) { gate.resolve(()) }
        }
    }

    private func original(_ number: Int, _ flights: SlowFlights, token: Int? = 1) -> Original {
        let key = CacheKey(.original, ["\(number)"])
        let entry = CachedData(data: Data("x".utf8), metadata: .init(lifetime: 60))
        let writer = OriginalCacheWriter(
            flights,
            key,
            SingleFlight.Leader(key: key, token: token),
            entry,
            isWanted: true
        )
        return Original(data: entry.data, metadata: entry.metadata, writer: writer)
    }

    @Test func aRequestWaitsOnlyAtTheLimit() async {
        let (uploads, flights) = (BackgroundUploads(limit: 2), SlowFlights())
        await uploads.adopt(original(1, flights))
        await uploads.adopt(original(2, flights))
        #expect(uploads.count == 2)
        let third = original(3, flights)
        let waiting = Task {
            await uploads.adopt(third)
            return flights.isOpened
        }
        while flights.count < 3 { await Task.yield() }
        #expect(uploads.count == 2)
        flights.open()
        #expect(await waiting.value, "it did not wait")
        #expect(await uploads.finish(within: .seconds(30)) == 0)
    }

    /// Without a flight no other caller waits for the entry, so that the next request must find it.
    @Test func anUploadWithoutAFlightIsWaitedFor() async {
        let (uploads, flights) = (BackgroundUploads(limit: 2), SlowFlights())
        flights.open()
        await uploads.adopt(original(1, flights, token: nil))
        await uploads.adopt(Original(data: Data("x".utf8), metadata: nil))
        #expect(uploads.count == 0)
    }

    @Test func theEndWaitsForUploadsWithinItsLimit() async {
        let (uploads, flights) = (BackgroundUploads(limit: 2), SlowFlights())
        await uploads.adopt(original(1, flights))
        #expect(await uploads.finish(within: .milliseconds(1)) == 1)
        flights.open()
        #expect(await uploads.finish(within: .seconds(30)) == 0)
    }
}

import Foundation
import Logging
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonPipeline

/// A folder with disk caches in it, a clock that stands still and a disk that can be held or full. A test that uses it
/// needs the trait `.diskCaches`, which ends the fixture.
final class DataCacheFixture: Sendable {
    let directory: TestDirectory
    let clock = ManualClock()
    let log = LogRecorder()
    private let disk = Disk()
    private let life: Mutex<Life?>
    private let ended = Promise<Void>()

    init() throws {
        directory = try TestDirectory()
        life = Mutex(Life(ended))
        let scope = try #require(DataCacheScope.current, "without .diskCaches the folder is removed too early")
        scope.add(self)
    }

    /// Returns when all caches have written their data and ended, and the folder is gone.
    func end() async {
        release()
        life.withLock { $0 = nil }
        await ended.value
        directory.remove()
        #expect(!FileManager.default.fileExists(atPath: directory.path))
    }

    var path: String { "\(directory.path)/cache" }

    func cache(_ change: (inout DataCache.Configuration) -> Void = { _ in }) throws -> DataCache {
        var configuration = DataCache.Configuration()
        change(&configuration)
        let (disk, life) = (disk, life.withLock { $0 })
        return try DataCache(
            DataCacheFolder(path: path) { descriptor, bytes in
                withExtendedLifetime(life) { disk.write(descriptor, bytes) }
            },
            configuration: configuration,
            time: TimeSource(clock, date: clock.date),
            logger: Logger(label: "test") { _ in self.log }
        )
    }

    /// Blocks all writes until `release`; data that is stored meanwhile is only staged.
    func hold() { disk.state.withLock { $0.isHeld = true } }

    /// Lets `count` writes pass: an entry takes two, its header and its data.
    func release(_ count: Int) { for _ in 0..<count { disk.passes.signal() } }

    func release() {
        disk.state.withLock { $0.isHeld = false }
        release(1000)
    }

    /// Sets the result code of writes; 0 is success.
    func setError(_ code: Int32) { disk.state.withLock { $0.error = code } }

    /// All files of the cache, as they are on the disk.
    var files: [String] { directory.files.filter { $0.hasPrefix("cache/") } }

    /// Retained by the fixture and by every object that may write: once it is deallocated, no write can follow.
    private final class Life: Sendable {
        private let ended: Promise<Void>

        init(_ ended: Promise<Void>) { self.ended = ended }

        deinit { ended.resolve(()) }
    }

    private final class Disk: Sendable {
        let state = Mutex((isHeld: false, error: Int32(0)))
        let passes = DispatchSemaphore(value: 0)

        @Sendable func write(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int32 {
            if state.withLock({ $0.isHeld }) { passes.wait() }
            let error = state.withLock { $0.error }
            return error == 0 ? DataCacheFolder.writeAll(descriptor, bytes) : error
        }
    }
}

extension Data {
    /// `count` bytes, each equal to the number of the entry.
    static func filled(_ byte: Int, count: Int = 100) -> Data { Data(repeating: UInt8(byte % 256), count: count) }
}

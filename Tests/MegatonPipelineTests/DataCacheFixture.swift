import Foundation
import Logging
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonPipeline

/// A folder with disk caches on it, whose time stands still and whose disk can be held or full. Its test has the trait
/// `.diskCaches`, which ends it.
final class DataCacheFixture: Sendable {
    let directory: TestDirectory
    let clock = ManualClock()
    let log = LogRecorder()
    private let disk = Disk()
    private let life: Mutex<Life?>
    private let ended = Answer<Void>()

    init() throws {
        directory = try TestDirectory()
        life = Mutex(Life(ended))
        let scope = try #require(DataCacheScope.current, "without .diskCaches the folder is removed too early")
        scope.add(self)
    }

    /// Returns when all caches have ended, with whatever they had to write, and the folder is gone.
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

    /// Lets no write begin until `release`; what is stored is only staged.
    func hold() { disk.state.withLock { $0.isHeld = true } }

    /// Lets so many writes pass: an entry takes two, its header and its data.
    func release(_ count: Int) { for _ in 0..<count { disk.passes.signal() } }

    func release() {
        disk.state.withLock { $0.isHeld = false }
        release(1000)
    }

    /// What writes end with; 0 is success.
    func setError(_ code: Int32) { disk.state.withLock { $0.error = code } }

    /// All files of the cache, as they lie there.
    var files: [String] { directory.files.filter { $0.hasPrefix("cache/") } }

    /// Held by the fixture and by whatever may write: when it ends, nobody does any more.
    private final class Life: Sendable {
        private let ended: Answer<Void>

        init(_ ended: Answer<Void>) { self.ended = ended }

        deinit { ended.give(()) }
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
    /// So many bytes that tell their number.
    static func filled(_ byte: Int, count: Int = 100) -> Data { Data(repeating: UInt8(byte % 256), count: count) }
}

import Foundation
import MegatonPipeline
import MegatonTestSupport

/// `MegatonCacheWriter FOLDER`: writes the entries of `CacheWriterEntry`, one after the other, until it is killed.
@main enum MegatonCacheWriter {
    static func main() async throws {
        var configuration = DataCache.Configuration()
        // Keeps writes from running far ahead of the disk.
        configuration.stagingLimit = 4 * 1024 * 1024
        let cache = try DataCache(
            path: URL(fileURLWithPath: CommandLine.arguments[1]),
            configuration: configuration
        )
        for step in 0... {
            let entry = CacheWriterEntry(step: step)
            await cache.storeData(entry.data, for: entry.key)
        }
    }
}

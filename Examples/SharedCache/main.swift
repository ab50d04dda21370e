import Foundation
import MegatonCluster

// SharedCache REDIS-URL
guard CommandLine.arguments.count == 2 else { exit(64) }
let redis = CommandLine.arguments[1]

let cache = try RedisDataCache(redis: redis)
let lock = InFlightLock(cache: cache)
let running = Task { await lock.run() }
let pipeline = ImagePipeline { $0.share(lock) }

// One pixel.
let base64 = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
let request = ImageRequest(url: URL(string: "data:image/png;base64,\(base64)"))
let image = try await pipeline.renditions([Rendition(width: 1, format: .webp)], for: request)[0]
print("\(image.data.count) bytes, by the \(image.source)")

running.cancel()
await running.value
cache.close()
exit(image.data.isEmpty ? 1 : 0)

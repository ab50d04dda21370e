import Foundation
import FoundationNetworking
import MegatonPipeline
import Synchronization

/// A cache as written for Nuke: a class with two synchronous methods.
final class MemoryCache: DataCaching {
    private let entries = Mutex<[String: Data]>([:])

    func cachedData(for key: String) -> Data? { entries.withLock { $0[key] } }

    func storeData(_ data: Data, for key: String) { entries.withLock { $0[key] = data } }
}

/// A loader with a single image in memory.
final class MemoryLoader: DataLoading {
    struct Load: Cancellable {
        func cancel() {}
    }

    let loads = Atomic(0)

    func loadData(
        with request: URLRequest,
        didReceiveData: @escaping @Sendable (Data, URLResponse) -> Void,
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) -> any Cancellable {
        loads.add(1, ordering: .relaxed)
        if let url = request.url,
            let response = HTTPURLResponse(url: url, statusCode: 200, httpVersion: nil, headerFields: [:])
        {
            didReceiveData(SampleImage.png, response)
        }
        completion(nil)
        return Load()
    }
}

let (loader, cache) = (MemoryLoader(), MemoryCache())
let pipeline = ImagePipeline {
    $0.dataLoader = loader
    $0.dataCache = cache
}
let request = ImageRequest(url: URL(string: "https://example.org/image.png")!)
for _ in 0..<2 {
    let image = try await pipeline.renditions([Rendition(width: 32, format: .webp)], for: request)[0]
    print("\(image.size.width) x \(image.size.height), \(image.data.count) bytes, by the \(image.source)")
    guard image.size == PixelSize(width: 32, height: 24) else { exit(1) }
}
exit(loader.loads.load(ordering: .relaxed) == 1 ? 0 : 1)

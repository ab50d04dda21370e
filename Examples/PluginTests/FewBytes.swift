import Foundation
import MegatonPipeline
import Synchronization

/// Data by key, in memory; empties itself once it would hold too many entries.
final class FewBytes: DataCaching {
    private let entries = Mutex<[String: Data]>([:])

    func cachedData(for key: String) -> Data? { entries.withLock { $0[key] } }

    func storeData(_ data: Data, for key: String) {
        entries.withLock { entries in
            if entries.count >= 1000 { entries = [:] }
            entries[key] = data
        }
    }
}

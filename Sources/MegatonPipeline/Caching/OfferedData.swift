package import Foundation

/// A cache whose `storeData` may wait, as its disk is slow.
package protocol WaitingDataCaching: DataCaching {
    /// Stores bytes as `storeData` does if that needs no wait; drops them otherwise, and an older entry stays.
    func storeDataAtOnce(_ data: Data, for key: String) async
}

extension DataCaching {
    /// Stores a copy of data that was just read from another cache: the reader does not wait for a slow disk, and can
    /// read the data there again.
    func offer(_ data: Data, for key: String) async {
        if let cache = self as? any WaitingDataCaching {
            await cache.storeDataAtOnce(data, for: key)
        } else {
            await storeData(data, for: key)
        }
    }
}

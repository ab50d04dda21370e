internal import Crypto
internal import Foundation

/// The header before the data in a file: `MDC1`, the length (8 bytes, little endian), and the SHA-256 of the file's
/// name and the data.
///
/// A file's data is not synced before its rename, which would cost an fsync for each entry. After a power cut a file
/// may therefore be empty, cut short or full of zeros; the checksum detects that.
enum DataCacheBlob {
    static let headerSize = 4 + 8 + 32
    private static let magic = BlobFormat.diskFile.magic

    static func header(of data: Data, _ name: DataCacheFileName) -> Data {
        var header = magic
        header.append(littleEndian: UInt64(data.count))
        header.append(contentsOf: checksum(data, name))
        return header
    }

    /// The length that a header announces; nil if the header has another format.
    static func length(_ header: Data) -> Int? {
        guard header.count == headerSize, header.starts(with: magic) else { return nil }
        return header.littleEndian(UInt64.self, at: magic.count).flatMap { Int(exactly: $0) }
    }

    static func isIntact(_ data: Data, _ header: Data, _ name: DataCacheFileName) -> Bool {
        header.dropFirst(12).elementsEqual(checksum(data, name))
    }

    private static func checksum(_ data: Data, _ name: DataCacheFileName) -> SHA256.Digest {
        var hash = SHA256()
        name.update(&hash)
        hash.update(data: data)
        return hash.finalize()
    }
}

import CZlib
import Foundation

/// Decompression of gzip.
enum Gzip {
    /// The data is damaged, or larger than the limit.
    enum Failure: Error {
        case damaged
        case tooLarge
    }

    private static let blockSize = 256 * 1024

    static func isCompressed(_ data: Data) -> Bool { data.starts(with: [0x1F, 0x8B]) }

    /// Decompresses all members of a gzip file.
    ///
    /// - Parameter limit: maximum size of the result, bytes; a small file may claim to be of any size.
    static func decompressed(_ data: Data, limit: Int) throws(Failure) -> Data {
        var stream = z_stream()
        guard megaton_inflate_gzip(&stream) == Z_OK else { throw .damaged }
        defer { inflateEnd(&stream) }
        var (input, result) = (Array(data), Data())
        var block = [UInt8](repeating: 0, count: blockSize)
        let count = input.count
        // zlib keeps pointers into both arrays between the calls within the closure only.
        let failure: Failure? = input.withUnsafeMutableBufferPointer { bytes in
            stream.next_in = bytes.baseAddress
            stream.avail_in = UInt32(clamping: count)
            while true {
                let (status, size) = block.withUnsafeMutableBufferPointer { output in
                    stream.next_out = output.baseAddress
                    stream.avail_out = UInt32(output.count)
                    return (inflate(&stream, Z_NO_FLUSH), output.count - Int(stream.avail_out))
                }
                guard status == Z_OK || status == Z_STREAM_END else { return .damaged }
                if result.count + size > limit { return .tooLarge }
                result.append(contentsOf: block.prefix(size))
                if status == Z_STREAM_END {
                    if stream.avail_in == 0 { return nil }
                    guard inflateReset(&stream) == Z_OK else { return .damaged }
                } else if stream.avail_in == 0 && size < blockSize {
                    // The end is missing.
                    return .damaged
                }
            }
        }
        if let failure { throw failure }
        return result
    }
}

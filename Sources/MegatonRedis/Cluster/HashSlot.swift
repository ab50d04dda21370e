import NIOCore

/// The slot of a key in a Redis Cluster: CRC16 of the key modulo 16,384.
///
/// Only the part between the first `{` and the next `}` counts if there is one and it is not empty, so that keys with
/// the same such tag share a slot.
/// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model
package enum HashSlot {
    static let count = 16_384

    package static func of(_ key: String) -> Int {
        var key = key
        return key.withUTF8 { of(UnsafeRawBufferPointer($0)) }
    }

    static func of(_ key: RedisArgument) -> Int {
        switch key {
        case .string(let text): of(text)
        case .buffer(let buffer): buffer.withUnsafeReadableBytes { of($0) }
        }
    }

    private static func of(_ key: UnsafeRawBufferPointer) -> Int {
        var tag = key[...]
        if let open = key.firstIndex(of: UInt8(ascii: "{")),
            let close = key[(open + 1)...].firstIndex(of: UInt8(ascii: "}")), close > open + 1
        {
            tag = key[(open + 1)..<close]
        }
        return Int(crc16(tag)) % count
    }

    /// CRC-16/XMODEM: polynomial 0x1021, initial value 0, no reflection.
    private static func crc16(_ bytes: Slice<UnsafeRawBufferPointer>) -> UInt16 {
        bytes.reduce(0) { crc, byte in crc << 8 ^ table[Int(UInt8(truncatingIfNeeded: crc >> 8) ^ byte)] }
    }

    private static let table: [UInt16] = (0..<256).map { index in
        (0..<8).reduce(UInt16(index) << 8) { crc, _ in crc & 0x8000 == 0 ? crc << 1 : crc << 1 ^ 0x1021 }
    }
}

/// Makes small changes to valid inputs, which pass the first check of a parser and fail at a later one.
struct Mutator {
    /// Maximum length in bytes; longer inputs are truncated.
    private static let longest = 64 * 1024
    /// Values at which counters and signs overflow.
    private static let numbers = [
        "-1", "0", "1", "127", "128", "255", "256", "32767", "65535", "65536", "2147483647", "2147483648", "4294967295",
        "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616",
        "1e308", "1e999", "0.5", "-0", "00", "99999999999999999999999999999999",
    ]
    private static let octets: [UInt8] = [0, 1, 9, 10, 13, 32, 34, 37, 46, 47, 58, 64, 91, 92, 127, 128, 192, 254, 255]

    private let seeds: [[UInt8]]
    private let words: [[UInt8]]

    init(seeds: [[UInt8]], words: [String]) {
        self.seeds = seeds.isEmpty ? [[]] : seeds
        self.words = (words.isEmpty ? [" "] : words).map { Array($0.utf8) }
    }

    func seed(using random: inout SeededGenerator) -> [UInt8] { random.pick(seeds) }

    func mutate(_ input: [UInt8], using random: inout SeededGenerator) -> [UInt8] {
        var bytes = input
        for _ in 0..<Int.random(in: 1...5, using: &random) { change(&bytes, &random) }
        return Array(bytes.prefix(Self.longest))
    }

    private func change(_ bytes: inout [UInt8], _ random: inout SeededGenerator) {
        let place = Int.random(in: 0...bytes.count, using: &random)
        let range = place..<min(bytes.count, place + Int.random(in: 1...16, using: &random))
        switch Int.random(in: 0..<10, using: &random) {
        case 0 where !range.isEmpty: bytes[place] ^= 1 << UInt8.random(in: 0...7, using: &random)
        case 1 where !range.isEmpty: bytes[place] = random.pick(Self.octets)
        case 2: bytes.removeSubrange(range)
        case 3: bytes.insert(contentsOf: bytes[range], at: place)
        case 4: bytes.insert(contentsOf: random.bytes(range.count), at: place)
        case 5: bytes.insert(contentsOf: random.pick(words), at: place)
        case 6: bytes.replaceSubrange(range, with: random.pick(words))
        case 7: bytes.removeSubrange(place...)
        case 8: bytes.replaceSubrange(place..., with: seed(using: &random).drop { _ in random.once(in: 9) })
        default: changeNumber(&bytes, place, &random)
        }
    }

    /// Replaces the digits after the place by another number; if there are none, writes a binary one.
    private func changeNumber(_ bytes: inout [UInt8], _ place: Int, _ random: inout SeededGenerator) {
        func isDigit(_ byte: UInt8) -> Bool { (48...57).contains(byte) }
        if let start = bytes[place...].firstIndex(where: isDigit), !random.once(in: 3) {
            let end = bytes[start...].firstIndex { !isDigit($0) } ?? bytes.count
            bytes.replaceSubrange(start..<end, with: Array(random.pick(Self.numbers).utf8))
        } else {
            let octet = random.pick([0, 0x7F, 0x80, 0xFF] as [UInt8])
            let count = min(random.pick([1, 2, 4, 8]), bytes.count - place)
            bytes.replaceSubrange(place..<(place + count), with: repeatElement(octet, count: count))
        }
    }
}

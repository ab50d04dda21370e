internal import Foundation

/// The header of a scan of a progressive JPEG (ITU-T T.81 annexes B.2.3 and G.1.1.1).
struct ProgressiveScan {
    /// The components, and the numbers of their Huffman tables.
    let components: [(index: Int, dc: Int, ac: Int)]
    /// The first and the last coefficient, in zigzag order: 0 alone, or one or more of the others.
    let first: Int
    let last: Int
    /// Low bits that an earlier scan of the coefficients has left, of which this one adds the highest; nil if this is
    /// the first scan of its coefficients.
    let bitsBefore: Int?
    /// Low bits that it leaves to later scans.
    let missingBits: Int

    /// - Returns: nil if libjpeg would refuse it, or if its components are in another order than those of the frame.
    init?(_ body: Data, _ frame: CoefficientFrame) {
        let bytes = body.map(Int.init)
        guard let count = bytes.first, (1...frame.components.count).contains(count), bytes.count == 4 + 2 * count else {
            return nil
        }
        var components: [(index: Int, dc: Int, ac: Int)] = []
        for position in 0..<count {
            let (name, tables) = (bytes[1 + 2 * position], bytes[2 + 2 * position])
            guard let index = frame.components.firstIndex(where: { Int($0.name) == name }), tables >> 4 < 4,
                tables & 15 < 4, components.last.map({ $0.index < index }) ?? true
            else { return nil }
            components.append((index, tables >> 4, tables & 15))
        }
        self.components = components
        (first, last, missingBits) = (bytes[1 + 2 * count], bytes[2 + 2 * count], bytes[3 + 2 * count] & 15)
        let before = bytes[3 + 2 * count] >> 4
        bitsBefore = before == 0 ? nil : before
        // The limit of libjpeg for the bits.
        guard first == 0 ? last == 0 : last >= first && last < 64 && count == 1, missingBits <= 13,
            before == 0 || before == missingBits + 1
        else { return nil }
    }
}

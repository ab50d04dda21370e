import Foundation
import MegatonTestSupport

/// Damage that a reader of JSON has to survive, the same in each run.
enum TextDamage {
    /// - Returns: the number of 20,000 damaged texts for which `isRead` returns true.
    static func count(of json: Data, isRead: (Data) -> Bool) -> Int {
        var random = SeededGenerator(seed: 7)
        let marks = Array(#"{}[]",:\0123456789.-+eEtrufalsn "#.utf8) + [0, 10, 127, 0x80, 0xC3, 0xFF]
        return (0..<20_000).count { _ in
            var bytes = Array(json)
            for _ in 0...Int.random(in: 0..<3, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                let mark = marks[Int.random(in: 0..<marks.count, using: &random)]
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[place] = mark
                case 1: bytes.remove(at: place)
                default: bytes.insert(mark, at: place)
                }
            }
            return isRead(Data(bytes))
        }
    }
}

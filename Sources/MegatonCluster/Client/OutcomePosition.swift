/// A place in the outcomes of a batch: the number of the next outcome in each shard, from 1.
///
/// Its text has the numbers of the shards with points in between: `501`, or `3.17.1` for three shards. A text with
/// fewer numbers than there are shards begins at 1 in the others: the queue was divided after the text was written.
package struct OutcomePosition: Sendable, Hashable, CustomStringConvertible {
    /// The numbers of the first shards; those of the others are 1.
    private var numbers: [Int]

    /// Numbers in a text.
    private static let range = 1...1_000_000_000_000
    /// Maximum length of a text: more than the numbers of all shards need.
    private static let maximumLength = 4096

    /// The first outcome of each shard.
    package static let start = OutcomePosition(numbers: [1])

    private init(numbers: [Int]) { self.numbers = numbers }

    /// - Returns: nil if the text is no position.
    package init?(_ text: String) {
        guard text.utf8.count <= Self.maximumLength else { return nil }
        var numbers: [Int] = []
        for part in text.split(separator: ".", omittingEmptySubsequences: false) {
            guard !part.isEmpty, part.utf8.allSatisfy({ (48...57).contains($0) }), let number = Int(part),
                Self.range.contains(number)
            else { return nil }
            numbers.append(number)
        }
        self.numbers = numbers
    }

    /// Number of shards that the position names.
    package var shardCount: Int { numbers.count }

    /// The number of the next outcome of a shard.
    package subscript(shard: Int) -> Int {
        get { shard < numbers.count ? numbers[shard] : 1 }
        set {
            if shard >= numbers.count { numbers += Array(repeating: 1, count: shard + 1 - numbers.count) }
            numbers[shard] = newValue
        }
    }

    /// The same position with a number for each of the shards.
    func of(shards: Int) -> OutcomePosition {
        var position = self
        position[shards - 1] = position[shards - 1]
        return position
    }

    package var description: String { numbers.map(String.init).joined(separator: ".") }
}

/// Finds the word that a misspelled one probably meant.
package enum Spelling {
    /// Longer words are not compared, because the time grows with the square of their length.
    private static let maximumLength = 64

    /// Returns the word with the smallest edit distance (changed, added, missing or swapped letters); nil if the
    /// distance exceeds a third of its letters, where at least one and at most three changes are allowed.
    package static func nearest(to word: String, among words: [String]) -> String? {
        guard !word.isEmpty, word.utf8.count <= maximumLength else { return nil }
        let letters = Array(word.lowercased().utf8)
        let distances = words.map { (word: $0, distance: distance(letters, Array($0.lowercased().utf8))) }
        guard let best = distances.min(by: { $0.distance < $1.distance }), best.word != word else { return nil }
        return best.distance <= max(1, min(3, best.word.utf8.count / 3)) ? best.word : nil
    }

    /// Optimal string alignment: Levenshtein distance in which a swap of two adjacent letters counts as one change.
    private static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
        if left.isEmpty || right.isEmpty { return max(left.count, right.count) }
        var (older, last) = ([Int](), Array(0...right.count))
        for i in 1...left.count {
            var row = [i]
            for j in 1...right.count {
                var cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1))
                if i > 1, j > 1, left[i - 1] == right[j - 2], left[i - 2] == right[j - 1] {
                    cost = min(cost, older[j - 2] + 1)
                }
                row.append(cost)
            }
            (older, last) = (last, row)
        }
        return last[right.count]
    }
}

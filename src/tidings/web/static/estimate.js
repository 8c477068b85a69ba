// The estimate of a query as a sentence.

/**
 * @param {{matches_per_day: number | null, posts_per_day: number | null, history_hours: number, sampled_posts: number}} check
 */
export function formatEstimate({ matches_per_day: count, posts_per_day: posts, history_hours: hours, sampled_posts }) {
  if (count === null) return "No posts have arrived yet, so there is no estimate.";
  const sample = `${sampled_posts.toLocaleString()} posts`;
  if (count === 0) return `None of the last ${sample} matched.`;
  if (hours < 1) {
    const share = posts ? count / posts : 0;
    return `About ${(100 * share).toFixed(share < 0.1 ? 1 : 0)} % of the last ${sample} matched.`;
  }
  const past = hours >= 48 ? `${Math.round(hours / 24)} days` : `${Math.max(1, Math.round(hours))} h`;
  return `${formatCount(count)} matches per day, estimated from ${sample} of the last ${past}.`;
}

/** @param {number} count */
function formatCount(count) {
  if (count >= 10) return `About ${Math.round(count).toLocaleString()}`;
  return count >= 0.05 ? `About ${count.toFixed(1)}` : "Fewer than 0.1";
}
